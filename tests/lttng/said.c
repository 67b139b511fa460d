/* Formats five events by lttng_ust_tracef() once a line of input has come: their place is this program's copy of the library's. */
#include <lttng/tracef.h>
#include <stdio.h>

int main(void)
{
    getchar();
    for (int number = 0; number < 5; number++)
        lttng_ust_tracef("number %d", number);
    return 0;
}
