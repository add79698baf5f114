#include "ops/kit/library_variant.h"

#include <absl/strings/str_cat.h>

namespace snug::core {
namespace {

constexpr int kMostRank = 4;
constexpr absl::string_view kOwnRow = "own";

LibraryVariant LicensedVariant(const PrepareContext& c, bool varies) {
  return {.tf32 = c.licence().tf32 && c.types().output(0).dtype == DType::kFloat32, .fast = c.licence().fast && varies};
}

absl::Status NotBeside(absl::string_view own, absl::string_view tuned) {
  return absl::InvalidArgumentError(absl::StrCat("\"", tuned, "\" cannot be taken instead of \"", own,
                                                 "\", as with other flags (--tf32, --fast) it might"));
}

}  // namespace

std::string LibraryVariant::Name() const {
  return absl::StrCat("library", tf32 ? "_tf32" : "", fast ? "_fast" : "", rank > 1 ? absl::StrCat(":", rank) : "");
}

absl::StatusOr<LibraryVariant> TakeLibraryVariant(PrepareContext& c, bool varies) {
  const LibraryVariant own = LicensedVariant(c, varies);
  LibraryVariant taken = own;
  while (!c.choice().empty() && taken.Name() != c.choice()) {
    if (++taken.rank > kMostRank) return NotBeside(own.Name(), c.choice());
  }
  c.SetVariant(taken.Name());
  if (taken.fast) c.SetVaries();
  return taken;
}

absl::Status TakeOwnBesideLibrary(PrepareContext& c) {
  if (!c.choice().empty() && c.choice() != kOwnRow) return NotBeside(kOwnRow, c.choice());
  c.SetVariant(std::string(kOwnRow));
  return absl::OkStatus();
}

std::string LicensedLibraryVariant(const PrepareContext& c, bool varies) { return LicensedVariant(c, varies).Name(); }

std::vector<std::string> OtherLibraryVariants(const PrepareContext& c, bool varies) {
  std::vector<std::string> others;
  LibraryVariant other = LicensedVariant(c, varies);
  while (++other.rank <= kMostRank) others.push_back(other.Name());
  others.emplace_back(kOwnRow);
  return others;
}

}  // namespace snug::core
