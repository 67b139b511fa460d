/* Hits the tracepoint of sales.h so many times as it is told, and prints how many of them a filter should keep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "sales.h"

int main(int argc, char **argv) {
    static const char *const articles[] = {"book", "lamp", "bookcase", "pen"};
    int rounds = argc > 1 ? atoi(argv[1]) : 1, kept = 0;
    for (int round = 0; round < rounds; round++) {
        int customer = round % 50 - 25;
        unsigned long cents = (unsigned long)round * 37 % 1000;
        const char *article = articles[round % 4];
        lttng_ust_tracepoint(shop, sale, customer, article, cents);
        kept += customer < 0 && strncmp(article, "book", 4) == 0 && cents > 500;
    }
    printf("%d\n", kept);
    return 0;
}
