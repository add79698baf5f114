#include <absl/strings/str_replace.h>

#include <algorithm>

#include "engine/base/text/json.h"
#include "tools/picture/picture.h"

namespace snug::core::cli {
namespace {

constexpr char kPage[] =
#include "tools/picture/plan_page.inc"
    ;

void WriteStrategy(const PictureStrategy& strategy, Json& json) {
  const LivePeak peak = FindLivePeak(strategy);
  json.Object().Key("name").String(strategy.name);
  json.Key("total").Number(strategy.total).Key("lower_bound").Number(strategy.lower_bound);
  json.Key("proven").Bool(strategy.proven).Key("seconds").Number(strategy.seconds);
  json.Key("peak").Number(peak.bytes).Key("peak_position").Number(static_cast<int64_t>(peak.position));
  json.Key("nodes").Array();
  for (const std::string& node : strategy.nodes) json.String(node);
  json.End().Key("buffers").Array();
  for (const PictureBuffer& b : strategy.buffers) {
    json.Array().String(b.name).String(b.op).String(b.kind).Number(b.size_bytes).Number(b.offset);
    json.Number(static_cast<int64_t>(b.first)).Number(static_cast<int64_t>(b.last));
    json.Number(static_cast<int64_t>(b.producer)).Array();
    for (const int32_t reader : b.readers) json.Number(static_cast<int64_t>(reader));
    json.End().Bool(b.written_over).End();
  }
  json.End().End();
}

}  // namespace

LivePeak FindLivePeak(const PictureStrategy& strategy) {
  std::vector<int64_t> change(strategy.nodes.size() + 2, 0);
  for (const PictureBuffer& b : strategy.buffers) {
    change[static_cast<size_t>(b.first)] += b.size_bytes;
    change[static_cast<size_t>(b.last + (b.written_over ? 0 : 1))] -= b.size_bytes;
  }
  LivePeak peak;
  int64_t live = 0;
  for (size_t t = 0; t < change.size(); ++t) {
    live += change[t];
    if (live > peak.bytes) peak = {live, static_cast<int32_t>(t)};
  }
  return peak;
}

std::string PicturePage(const Picture& picture) {
  Json json;
  json.Object().Key("network").String(picture.network).Key("batch").Number(picture.batch);
  json.Key("mode").String(picture.mode).Key("state").Number(picture.state_bytes);
  json.Key("chosen").String(picture.chosen).Key("strategies").Array();
  for (const PictureStrategy& strategy : picture.strategies) WriteStrategy(strategy, json);
  json.End().Key("bodies").Array();
  for (const PictureBody& body : picture.bodies) {
    json.Object().Key("loop").String(body.loop).Key("rounds").Number(body.rounds);
    json.Key("bound").Bool(body.bound).Key("workspace").Number(body.workspace_bytes);
    WriteStrategy(body.plan, json.Key("plan"));
    json.End();
  }
  json.End().End();
  // The data are inside a <script>, which a "</script>" in a name must not end.
  return absl::StrReplaceAll(kPage, {{"@DATA@", absl::StrReplaceAll(json.text(), {{"<", "\\u003c"}})}});
}

}  // namespace snug::core::cli
