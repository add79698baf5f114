#include "tools/picture/confusion_script.h"

namespace snug::core::cli {

const char kConfusionScript[] =
#include "tools/picture/confusion.inc"
    ;

}  // namespace snug::core::cli
