// `snug ops` prints the table of ops.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <cstdio>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "ops/registry.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {
namespace {

std::string Ports(const std::vector<Port>& ports) {
  return absl::StrJoin(ports, ", ", [](std::string* out, const Port& port) {
    absl::StrAppend(out, port.name, port.optional ? "?" : port.variadic ? "..." : "");
  });
}

std::string AsJson(const OpRegistry& registry) {
  Json json;
  json.Array();
  for (const OpDef* op : registry.all()) {
    json.Object().Key("name").String(op->name).Key("doc").String(op->doc);
    const size_t on_cpu = op->KernelsOn(Device::Kind::kCpu).size();
    json.Key("cpu").Bool(on_cpu > 0 || op->traits.view).Key("cpu_fast").Bool(on_cpu > 1);
    json.Key("cuda").Bool(!op->KernelsOn(kOnCuda).empty()).Key("gradient").Bool(op->gradient != nullptr);
    json.Key("kernels").Array();
    for (const KernelRow& row : op->kernels) {
      json.Object().Key("device").String(row.device == kOnCuda ? "cuda" : "cpu").Key("name").String(row.name).End();
    }
    json.End();
    json.Key("file").String(registry.file_of(op->name)).End();
  }
  return json.End().text();
}

std::string AsMarkdown(const OpRegistry& registry) {
  std::string text = "| op | inputs | outputs | what | gradient |\n|---|---|---|---|---|\n";
  for (const OpDef* op : registry.all()) {
    absl::StrAppend(&text, "| ", op->name, " | ", Ports(op->inputs), " | ", Ports(op->outputs), " | ",
                    absl::StrReplaceAll(op->doc, {{"|", "\\|"}}), " | ", op->gradient != nullptr ? "yes" : "", " |\n");
  }
  return text;
}

std::string AsText(const OpRegistry& registry) {
  std::string text;
  for (const OpDef* op : registry.all()) {
    std::string head = absl::StrCat(op->name, "(", Ports(op->inputs), ")");
    head.resize(std::max<size_t>(head.size() + 2, 48), ' ');
    absl::StrAppend(&text, head, op->doc, "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<int> RunOps(const Arguments& arguments) {
  bool json = false;
  bool markdown = false;
  Flags flags("snug ops [flags]", "Lists every op: what it takes, what it computes, which kernels it has.");
  AddJsonFlag(flags, &json);
  flags.Add("markdown", &markdown, "print the table of docs/ops.md");
  SNUG_ASSIGN_OR_RETURN(const Arguments positional, flags.Parse(arguments));
  if (!positional.empty())
    return absl::InvalidArgumentError(absl::StrCat("expected no arguments, found \"", positional[0], "\""));
  const OpRegistry& registry = OpRegistry::Builtin();
  std::puts((json ? AsJson(registry) : markdown ? AsMarkdown(registry) : AsText(registry)).c_str());
  return 0;
}

}  // namespace snug::core::cli
