// What a training leaves, and where: names for who writes it and for who looks for it.
#pragma once

#include <string>
#include <utility>

namespace snug::core {

// The name of a network as one of a file: it leads into no other folder, and nothing in it controls a terminal.
inline std::string FileNameOf(std::string network) {
  for (char& c : network) {
    if (c == '/' || static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '_';
  }
  if (network.empty() || network.find_first_not_of('.') == std::string::npos) network += '_';
  return network;
}

class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  // The folder of a training for which nobody names one.
  static RunFolder Of(const std::string& network) { return RunFolder("runs/" + FileNameOf(network)); }

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }  // a folder
  std::string metrics() const { return path_ + "/metrics.jsonl"; }
  std::string curve() const { return path_ + "/curve.svg"; }
  std::string tensorboard() const { return path_ + "/tensorboard"; }   // a folder
  std::string record() const { return path_ + "/run.json"; }           // options, sizes, and how it ended
  std::string confusion() const { return path_ + "/confusion.json"; }  // what the last evaluation took for what
  std::string memory_page() const { return path_ + "/memory.html"; }   // the plan of a step, to click on
  std::string memory_picture() const { return path_ + "/memory.svg"; }
  std::string find_lr() const { return path_ + "/find_lr.svg"; }

 private:
  std::string path_;
};

}  // namespace snug::core
