/* Emits each row of corpus.h once. The values are those at which comparisons, shifts and conversions differ. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "corpus.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 64 };

static const int64_t numbers[] = {
    0, 1, -1, 2, 3, 7, 64, 63, 100, -100, 127, -128, 128, 255, 256, 32767, -32768, 65535, 0x7fffffff, -0x7fffffff - 1,
    0xffffffff, 0x100000000, INT64_MAX, INT64_MIN, 42, -42, 5, 1000000007, -3, 16, 8, 4,
};
static const double reals[] = { 0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 2.0, 3.0, 1e3, -1e3, 1e18, 1e19, -1e19, 1e300, -1e-300 };
static const char *const texts[] = {
    "", "a", "b", "ab", "abc", "abd", "b*", "*", "\\", "a\\b", "hello world", "Hello", "hell", "\xc3\xa9t\xc3\xa9", "z", "(null)", NULL, "aa",
};

#define PICK(table, at) (table)[(at) % (sizeof(table) / sizeof((table)[0]))]

int main(void)
{
    for (int id = 0; id < ROWS; id++) {
        struct row row = {
            .i8 = (int8_t)PICK(numbers, id),
            .u8 = (uint8_t)PICK(numbers, id * 3 + 1),
            .i16 = (int16_t)PICK(numbers, id * 5 + 2),
            .u16 = (uint16_t)PICK(numbers, id * 7 + 3),
            .i32 = (int32_t)PICK(numbers, id * 9 + 4),
            .u32 = (uint32_t)PICK(numbers, id * 11 + 5),
            .i64 = PICK(numbers, id * 13 + 6),
            .u64 = (uint64_t)PICK(numbers, id * 15 + 7),
            .f = (float)PICK(reals, id * 3 + 1),
            .d = PICK(reals, id * 5 + 2),
            .s = PICK(texts, id),
            .t = PICK(texts, id * 5 + 3),
            .count = id % 5,
            .state = id % 7,
        };
        for (int at = 0; at < 3; at++)
            row.arr[at] = (int16_t)PICK(numbers, id * 17 + at);
        for (int at = 0; at < 4; at++)
            row.seq[at] = (int32_t)PICK(numbers, id * 19 + at);
        for (int at = 0; at < id % 9 && at < 8; at++)
            row.tag[at] = "abcabdab"[(id + at) % 8];
        if (id == 40)
            row.d = NAN;
        if (id == 41)
            row.d = INFINITY;
        lttng_ust_tracepoint(corpus, row, id, &row);
    }
    return 0;
}
