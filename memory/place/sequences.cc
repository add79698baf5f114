#include <algorithm>
#include <cmath>
#include <numeric>

#include "memory/place/list_placer.h"

namespace snug::core::memory {
namespace {

struct Facts {
  double size;
  double sections;  // how many sections it lives through
  double load;      // the most that is live at once in its lifetime
  double mean_load;
  double first, last;
};

// Finds the largest load in any range of sections, by a table of powers of two.
class RangeMax {
 public:
  explicit RangeMax(std::vector<int64_t> values) {
    levels_.push_back(std::move(values));
    for (size_t width = 1; 2 * width <= levels_[0].size(); width *= 2) {
      const std::vector<int64_t>& below = levels_.back();
      std::vector<int64_t> level(below.size() - width);
      for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + width]);
      levels_.push_back(std::move(level));
    }
  }
  int64_t Max(size_t first, size_t last) const {
    size_t level = 0;
    while ((size_t{2} << level) <= last - first + 1) ++level;
    return std::max(levels_[level][first], levels_[level][last + 1 - (size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<int64_t>> levels_;
};

std::vector<Facts> FactsOf(const Instance& instance) {
  const std::vector<int64_t> load = LoadOf(instance);
  std::vector<double> sum(load.size() + 1, 0);
  for (size_t s = 0; s < load.size(); ++s) sum[s + 1] = sum[s] + static_cast<double>(load[s]);
  const RangeMax highest(load);
  std::vector<Facts> facts;
  facts.reserve(instance.size());
  for (const Item& item : instance.items) {
    const auto first = static_cast<size_t>(item.first), last = static_cast<size_t>(item.last);
    const double sections = static_cast<double>(last - first + 1);
    facts.push_back({static_cast<double>(item.size), sections, static_cast<double>(highest.Max(first, last)),
                     (sum[last + 1] - sum[first]) / sections, static_cast<double>(first), static_cast<double>(last)});
  }
  return facts;
}

struct SequenceRule {
  // The item with the larger key goes first; then the one with the larger second key.
  double (*key)(const Facts&);
  double (*then)(const Facts&);
};

double Size(const Facts& f) { return f.size; }
double Sections(const Facts& f) { return f.sections; }
double Area(const Facts& f) { return f.size * f.sections; }
double Load(const Facts& f) { return f.load; }
double MeanLoad(const Facts& f) { return f.mean_load; }
double Earliest(const Facts& f) { return -f.first; }
double Latest(const Facts& f) { return f.last; }
double SizeRootSections(const Facts& f) { return f.size * std::sqrt(f.sections); }
double SectionsRootSize(const Facts& f) { return f.sections * std::sqrt(f.size); }
double LogSections(const Facts& f) { return std::floor(2 * std::log2(f.sections)); }
double LogSize(const Facts& f) { return std::floor(2 * std::log2(f.size)); }
double SizeLoad(const Facts& f) { return f.size * f.load; }
double AreaLoad(const Facts& f) { return f.size * f.sections * f.mean_load; }

// The first rules do best on large instances, where there is no time for all.
constexpr SequenceRule kRules[] = {
    {Load, Size},        {SizeLoad, Sections}, {Load, Sections},     {Size, Sections},         {Area, Size},
    {Sections, Size},    {Load, Area},         {Earliest, Sections}, {SizeRootSections, Size}, {SectionsRootSize, Size},
    {LogSections, Size}, {LogSize, Sections},  {AreaLoad, Size},     {MeanLoad, Size},         {Earliest, Size},
    {Latest, Sections},
};

}  // namespace

int SequenceCount() { return static_cast<int>(std::size(kRules)); }

std::vector<int32_t> SequenceOf(const Instance& instance, int index) {
  const std::vector<Facts> facts = FactsOf(instance);
  const SequenceRule& rule = kRules[index];
  std::vector<int32_t> sequence(instance.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(), [&](int32_t a, int32_t b) {
    const Facts& fa = facts[static_cast<size_t>(a)];
    const Facts& fb = facts[static_cast<size_t>(b)];
    if (rule.key(fa) != rule.key(fb)) return rule.key(fa) > rule.key(fb);
    return rule.then(fa) > rule.then(fb);
  });
  return sequence;
}

}  // namespace snug::core::memory
