// Reads JPEG files and decodes them to colours by libjpeg-turbo alone, and prints how many a second:
//   jpeg_decoding DIRECTORY SECONDS
// bench/image_bench.py runs it beside readers that do more.
#include <turbojpeg.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() == ".jpg") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The buffers stay from file to file, as the program that decodes many would keep them.
class Decoder {
 public:
  ~Decoder() { tjDestroy(handle_); }

  bool Decode(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    bytes_.resize(static_cast<size_t>(std::max<std::streamoff>(0, file.tellg())));
    file.seekg(0);
    if (!file.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()))) return false;
    const auto size = static_cast<unsigned long>(bytes_.size());  // NOLINT(google-runtime-int): the library's type
    int width = 0, height = 0, sampling = 0, colours = 0;
    if (tjDecompressHeader3(handle_, bytes_.data(), size, &width, &height, &sampling, &colours) != 0) return false;
    pixels_.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    return tjDecompress2(handle_, bytes_.data(), size, pixels_.data(), width, /*pitch=*/0, height, TJPF_RGB,
                         TJFLAG_ACCURATEDCT) == 0;
  }

 private:
  tjhandle handle_ = tjInitDecompress();
  std::vector<unsigned char> bytes_, pixels_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: jpeg_decoding DIRECTORY SECONDS\n");
    return 2;
  }
  const std::vector<std::string> files = FilesIn(argv[1]);
  if (files.empty()) {
    std::fprintf(stderr, "%s: expected files *.jpg, found none\n", argv[1]);
    return 1;
  }
  Decoder decoder;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  size_t images = 0;
  for (const double seconds = std::atof(argv[2]); elapsed() < seconds; ++images) {
    if (const std::string& path = files[images % files.size()]; !decoder.Decode(path)) {
      std::fprintf(stderr, "%s: cannot be decoded\n", path.c_str());
      return 1;
    }
  }
  std::printf("%.1f\n", static_cast<double>(images) / elapsed());
  return 0;
}
