// Includes all of Snug for use inside another program. docs/embedding.md begins with ten lines that train a network.
#pragma once

#include "snug/control.h"
#include "snug/network.h"
#include "snug/op.h"
#include "snug/session.h"
#include "snug/status.h"
#include "snug/tensor.h"
#include "snug/version.h"
