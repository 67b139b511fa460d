/* The machine that this is compiled for. */
#if defined(__x86_64__)
#include "x86_64/machine.h"
#else
#error "weir's runtime has no part for this machine: see docs/decisions/0079-machines.md"
#endif
