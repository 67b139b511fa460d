/*
 * The island: the only words of the image that its loader writes. It stands behind the code, in a read-only section
 * of its own; in the controller's linked copy it is an ordinary object.
 *
 * Written as assembly, because compilers put an object that is both const and volatile among writable data.
 */
#include "weir.h"

_Static_assert(sizeof(struct weir_island) == 64, "the bytes reserved below");

#ifdef WEIR_LINKED
#define SECTION ".data.weir_island,\"aw\",@progbits"
#else
#define SECTION ".weir_island,\"a\",@progbits"
#endif

__asm__(".pushsection " SECTION "\n"
        ".p2align 6\n"
        ".globl weir_island\n"
        ".hidden weir_island\n"
        ".type weir_island, @object\n"
        ".size weir_island, 64\n"
        "weir_island:\n"
        ".zero 64\n"
        ".popsection\n"
        /* The image begins with its code: its alignment is the image's (RuntimeImage::ALIGN). */
        ".pushsection .text\n"
        ".p2align 6\n"
        ".popsection\n");
