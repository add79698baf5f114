// The pages about trainings. They draw their curves by one script (chart.js), and matrices by one that the report
// of `snug eval` has too (confusion.js).
#pragma once

#include <string>

namespace snug::core::cli {

// The page of `snug watch`, which asks the server that it comes from for "/events": RunEvents says what is in them.
std::string WatchPage();

// The page of `snug compare`, with its data in it.
std::string ComparePage(const std::string& json);

}  // namespace snug::core::cli
