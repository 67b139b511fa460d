/*
 * weir/log.h: messages as events, for C and C++.
 *
 *     WEIR_LOG(INFO, "customer %u bought %s", customer, article);
 *
 * is a statement. While nobody traces messages of this level it is a comparison with a word in memory and a branch that is not taken: no
 * argument is evaluated, nothing is formatted. Traced, it is the event weir:log_INFO, with the file, the line, the function and
 * the message, which is formatted as by printf(3) and ends after WEIR_LOG_BYTES bytes.
 *
 *     weir record -e 'weir:log_*' --loglevel info -o trace -p "$(pidof shop)"
 *     weir trace -e 'usdt:./shop:weir:log_ERR { printf("%s\n", str(args.message)); }' -p "$(pidof shop)"
 *
 * Levels: EMERG, ALERT, CRIT, ERR, WARNING, NOTICE, INFO, DEBUG_SYSTEM, DEBUG_PROGRAM, DEBUG_PROCESS, DEBUG_MODULE, DEBUG_UNIT,
 * DEBUG_FUNCTION, DEBUG_LINE, DEBUG; each is an event of its own. Events with fields of their types cost less, and can be filtered by
 * these: WEIR_TRACEPOINT of weir/tracepoint.h.
 */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "weir/tracepoint.h"

/* Bytes of a message, with the NUL: of the thread's stack while it is formatted. */
#ifndef WEIR_LOG_BYTES
#define WEIR_LOG_BYTES 1024
#endif

#define WEIR_LOG(level, ...)                                                                                         \
	do {                                                                                                         \
		int weir_log_is_on;                                                                                  \
		__asm__ __volatile__("cmpw $0, " WEIR_TP_SEMAPHORE(weir, log_##level) "(%%rip)"                      \
				     : "=@ccne"(weir_log_is_on));                                                    \
		if (__builtin_expect(weir_log_is_on, 0)) {                                                           \
			char weir_log_message[WEIR_LOG_BYTES];                                                       \
			weir_log_format(weir_log_message, sizeof weir_log_message, __VA_ARGS__);                     \
			WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_##level, weir, log_##level, (string, file, __FILE__),       \
					      (unsigned, line, __LINE__), (string, function, __func__),              \
					      (string, message, weir_log_message));                                  \
		}                                                                                                    \
	} while (0)

/* ---- What follows is not for use by itself. ---- */

/* The message, as far as there is room for it. errno is the program's. */
__attribute__((__format__(__printf__, 3, 4), __unused__, __noinline__)) static void
weir_log_format(char *message, unsigned long bytes, const char *format, ...)
{
	int error = errno;
	va_list arguments;
	va_start(arguments, format);
	if (vsnprintf(message, bytes, format, arguments) < 0)
		message[0] = 0;
	va_end(arguments);
	errno = error;
}

#endif
