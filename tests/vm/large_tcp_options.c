/* Headers and options of twelve packets, written out: branches everywhere, and loops inside. */
#define PACKETS 12
#define LOOP _Pragma("unroll")
#include "tcp_options.c"
