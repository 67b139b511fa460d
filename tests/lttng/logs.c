/* Once a line of input has come: five messages by lttng_ust_tracef(), and five by lttng_ust_tracelog() of each of three levels. */
#include <lttng/tracef.h>
#include <lttng/tracelog.h>
#include <stdio.h>

int main(void)
{
    getchar();
    for (int number = 0; number < 5; number++) {
        lttng_ust_tracef("ferry number %d", number);
        lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR, "ferry error %d", number);
        lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO, "ferry news %d", number);
        lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG, "ferry detail %d", number);
    }
    return 0;
}
