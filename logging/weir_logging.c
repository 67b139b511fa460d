/*
 * weir_logging.c: records of Python's logging, java.util.logging and Log4j 2 as events, under the names and with the fields that LTTng's
 * agents give them: lttng_python:event, lttng_jul:event, lttng_log4j:event. docs/logging.md is the guide.
 *
 *     cc -O2 -fPIC -shared -Iinclude -o libweir-logging.so logging/weir_logging.c
 *
 * Where <jni.h> is found, the library has the methods for Java too.
 *
 * weir_logging.py and the classes in java/ load it. They look at an event's semaphore first, a word of 2 bytes that is 0 while nobody traces the
 * event, and format nothing then. Nothing is registered or started, and no lock is taken: any thread may call at any moment, in a signal handler
 * and in a forked child too.
 */
#include <stdint.h>
#include <string.h>

#include "weir/tracepoint.h"

/* The address of an event's semaphore, which has no name in C. */
#define SEMAPHORE(provider)                                                                                       \
	__extension__({                                                                                           \
		volatile uint16_t *address;                                                                       \
		__asm__("leaq " WEIR_TP_SEMAPHORE(provider, event) "(%%rip), %0" : "=r"(address));                \
		address;                                                                                          \
	})

/* ---- For Python, by ctypes. ---- */

volatile uint16_t *weir_logging_python_semaphore(void);
volatile uint16_t *weir_logging_python_semaphore(void)
{
	return SEMAPHORE(lttng_python);
}

void weir_logging_python(const char *asctime, const char *msg, const char *logger_name, const char *function, unsigned line,
			 unsigned level, unsigned long thread, const char *thread_name);
void weir_logging_python(const char *asctime, const char *msg, const char *logger_name, const char *function, unsigned line,
			 unsigned level, unsigned long thread, const char *thread_name)
{
	WEIR_TRACEPOINT(lttng_python, event, (string, asctime, asctime), (string, msg, msg), (string, logger_name, logger_name),
			(string, funcName, function), (unsigned, lineno, line), (unsigned, int_loglevel, level),
			(unsigned long, thread, thread), (string, threadName, thread_name));
}

/* ---- For Java. ---- */

#if defined(__has_include)
#if __has_include(<jni.h>)
#include <jni.h>

/* The texts of a record come in one array, each ended by a NUL. */
#define TEXTS_MAX 6

/* Where each text begins; one that is missing is empty. */
static void split(const char *bytes, jsize length, const char *texts[TEXTS_MAX])
{
	const char *end = bytes + length;
	for (int i = 0; i < TEXTS_MAX; i++) {
		const char *nul = bytes < end ? memchr(bytes, 0, (size_t)(end - bytes)) : NULL;
		texts[i] = nul ? bytes : "";
		bytes = nul ? nul + 1 : end;
	}
}

JNIEXPORT jobject JNICALL Java_weir_logging_Events_julSemaphore(JNIEnv *env, jclass class)
{
	(void)class;
	return (*env)->NewDirectByteBuffer(env, (void *)SEMAPHORE(lttng_jul), 2);
}

JNIEXPORT jobject JNICALL Java_weir_logging_Events_log4jSemaphore(JNIEnv *env, jclass class)
{
	(void)class;
	return (*env)->NewDirectByteBuffer(env, (void *)SEMAPHORE(lttng_log4j), 2);
}

/* The array's bytes, and the texts in them; NULL where there is no memory. */
static jbyte *texts_of(JNIEnv *env, jbyteArray array, const char *texts[TEXTS_MAX])
{
	jbyte *bytes = (*env)->GetByteArrayElements(env, array, NULL);
	if (bytes)
		split((const char *)bytes, (*env)->GetArrayLength(env, array), texts);
	return bytes;
}

/* texts: message, logger, class, method. */
JNIEXPORT void JNICALL Java_weir_logging_Events_jul(JNIEnv *env, jclass class, jbyteArray array, jlong millis, jint level, jint thread)
{
	(void)class;
	const char *texts[TEXTS_MAX];
	jbyte *bytes = texts_of(env, array, texts);
	if (!bytes)
		return;
	WEIR_TRACEPOINT(lttng_jul, event, (string, msg, texts[0]), (string, logger_name, texts[1]), (string, class_name, texts[2]),
			(string, method_name, texts[3]), (long, long_millis, millis), (int, int_loglevel, level),
			(int, int_threadid, thread));
	(*env)->ReleaseByteArrayElements(env, array, bytes, JNI_ABORT);
}

/* texts: message, logger, class, method, file, thread. */
JNIEXPORT void JNICALL Java_weir_logging_Events_log4j(JNIEnv *env, jclass class, jbyteArray array, jint line, jlong millis, jint level)
{
	(void)class;
	const char *texts[TEXTS_MAX];
	jbyte *bytes = texts_of(env, array, texts);
	if (!bytes)
		return;
	WEIR_TRACEPOINT(lttng_log4j, event, (string, msg, texts[0]), (string, logger_name, texts[1]), (string, class_name, texts[2]),
			(string, method_name, texts[3]), (string, filename, texts[4]), (int, line_number, line),
			(long, timestamp, millis), (int, int_loglevel, level), (string, thread_name, texts[5]));
	(*env)->ReleaseByteArrayElements(env, array, bytes, JNI_ABORT);
}

#endif
#endif
