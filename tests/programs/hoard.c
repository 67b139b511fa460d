/*
 * Holds so many megabytes of memory, all touched, and calls work() until its input ends; then it says how often.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <poll.h>

__attribute__((noinline)) unsigned long work(unsigned long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }

int main(int argc, char **argv)
{
    unsigned long bytes = strtoul(argv[1], 0, 10) << 20, calls = 0;
    char *hoard = malloc(bytes);
    memset(hoard, argc, bytes);
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, 0) == 0)
        for (int i = 0; i < 1000; i++)
            calls += work(calls) != 0;
    printf("calls %lu of %d\n", calls, hoard[bytes / 2]);
    return 0;
}
