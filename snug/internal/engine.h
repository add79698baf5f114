// The engine, for the files that put the public API on top of it. It must be included before every public header.
//
// Some names mean a class of the engine and one of the public API: `snug::Session`, `snug::Program`, `snug::DType`. The
// inline namespace v0 keeps their symbols apart. In code the plain name is the public class, and the engine's are named
// through `engine::`. The engine's own headers use plain names for the engine's classes, so they must be read before
// the public ones exist.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/shape.h"
#include "engine/base/status.h"
#include "engine/compile/compile_settings.h"
#include "engine/compile/differentiate/updates.h"
#include "engine/compile/import/import.h"
#include "engine/compile/memory/share_state.h"
#include "engine/compile/pipeline.h"
#include "engine/graph/value_type.h"
#include "engine/run/session/session.h"
#include "engine/run/session/value_view.h"
#include "engine/train/checkpoint/posix_file_system.h"
#include "engine/train/checkpoint/resume.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/checkpoint/store.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/layer_context.h"
#include "ops/registry.h"
#include "proto/data_type.h"
#include "proto/network_writer.h"
#include "proto/source_map.h"
#include "proto/text_loader.h"

namespace snug::engine {

using ::snug::DType;
using ::snug::DTypeOf;
using ::snug::Session;
using ::snug::SessionOptions;

}  // namespace snug::engine
