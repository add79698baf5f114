// A stack for handlers of signals. The system puts what a handler needs below the stack pointer of the thread that it
// interrupts; a kernel of oneDNN's for AVX has its stack pointer in a small buffer on the heap for a while, and what
// lies before that would be written over. A handler that asks for the stack (SA_ONSTACK) may come at any time.
#pragma once

namespace snug::core {

// Gives the calling thread such a stack, for as long as it lives. A thread that has one already keeps it.
void NeedSignalStack();

}  // namespace snug::core
