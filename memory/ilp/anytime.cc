#include "memory/ilp/anytime.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "memory/ilp/child.h"

namespace snug::core::memory {
namespace {

// Writes what goes through the pipe between two processes of one program on one machine, in the machine's own form of
// numbers.
class MessageWriter {
 public:
  void Number(int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  template <typename T>
  void Numbers(const std::vector<T>& numbers) {
    Number(static_cast<int64_t>(numbers.size()));
    for (const T number : numbers) Number(number);
  }
  void Text(absl::string_view text) {
    Number(static_cast<int64_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(absl::string_view bytes) : bytes_(bytes) {}
  int64_t Number() {
    int64_t number = 0;
    std::memcpy(&number, bytes_.data(), sizeof(number));
    bytes_.remove_prefix(sizeof(number));
    return number;
  }
  template <typename T>
  std::vector<T> Numbers() {
    std::vector<T> numbers(static_cast<size_t>(Number()));
    for (T& number : numbers) number = static_cast<T>(Number());
    return numbers;
  }
  std::string Text() {
    const auto size = static_cast<size_t>(Number());
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }

 private:
  absl::string_view bytes_;
};

enum MessageKind : int64_t { kFinding, kError };

std::string Write(const Finding& finding) {
  MessageWriter writer;
  for (const int64_t number :
       {int64_t{kFinding}, finding.total, finding.peak_bound, finding.bound, finding.work, int64_t{finding.line}}) {
    writer.Number(number);
  }
  writer.Numbers(finding.order);
  writer.Numbers(finding.offsets);
  writer.Text(finding.note);
  return writer.bytes();
}

Finding ReadFinding(MessageReader* reader) {
  Finding finding;
  for (int64_t* number : {&finding.total, &finding.peak_bound, &finding.bound, &finding.work})
    *number = reader->Number();
  finding.line = static_cast<int32_t>(reader->Number());
  finding.order = reader->Numbers<int32_t>();
  finding.offsets = reader->Numbers<int64_t>();
  finding.note = reader->Text();
  return finding;
}

std::string Write(const absl::Status& status) {
  MessageWriter writer;
  writer.Number(kError);
  writer.Number(static_cast<int64_t>(status.code()));
  writer.Text(status.message());
  return writer.bytes();
}

absl::Status ReadError(MessageReader* reader) {
  const auto code = static_cast<absl::StatusCode>(reader->Number());
  return absl::Status(code, reader->Text());
}

}  // namespace

void Anytime::Take(const Finding& finding) {
  const bool better = finding.total >= 0 && (best_.total < 0 || finding.total < best_.total);
  const bool tighter = finding.bound > report_.lower_bound;
  report_.lower_bound = std::max(report_.lower_bound, finding.bound);
  peak_bound_ = std::max(peak_bound_, finding.peak_bound);
  report_.work = std::max(report_.work, finding.work);
  if (finding.line >= 0) {
    const auto line = static_cast<size_t>(finding.line);
    if (report_.notes.size() <= line) report_.notes.resize(line + 1);
    report_.notes[line] = finding.note;
  }
  if (better) best_ = finding;
  if ((better || tighter) && best_.total >= 0) {
    report_.curve.push_back({Seconds(), best_.total, report_.lower_bound});
  }
}

absl::Status Anytime::Run(const std::function<absl::Status(const Emit&)>& search) {
  if (seconds_ <= 0) return search([this](const Finding& finding) { Take(finding); });
  absl::Status result;
  const absl::StatusOr<ChildEnd> end = RunInChild(
      seconds_ - Seconds(),
      [&](const SendFn& send) {
        const absl::Status status = search([&](const Finding& finding) { send(Write(finding)); });
        if (!status.ok()) send(Write(status));
      },
      [&](absl::string_view message) {
        MessageReader reader(message);
        if (reader.Number() == kFinding) {
          Take(ReadFinding(&reader));
        } else {
          result = ReadError(&reader);
        }
      });
  if (!end.ok()) return EndEarly(end.status());
  report_.clock_stopped = *end == ChildEnd::kStopped;
  if (*end == ChildEnd::kDied) {
    return EndEarly(absl::InternalError(
        "the process of the search for a plan has died: its memory was not enough, somebody ended it, or a fault"));
  }
  return result;
}

absl::Status Anytime::EndEarly(const absl::Status& why) {
  if (best_.total < 0) return why;
  report_.notes.push_back(
      absl::StrCat(why.message(), "; the answer is the best until then, and another run may differ"));
  return absl::OkStatus();
}

SearchReport Anytime::Report() const {
  SearchReport report = report_;
  report.seconds = Seconds();
  report.proven = best_.total >= 0 && best_.total <= report.lower_bound;
  return report;
}

}  // namespace snug::core::memory
