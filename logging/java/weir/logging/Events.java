package weir.logging;

import java.io.File;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * The events of libweir-logging.so: whether somebody traces one, and the event itself. Without the library nobody does, and one line on
 * standard error says why. The library is beside the jar, in ../../lib, where -Dweir.logging.path says or where System.loadLibrary looks.
 */
final class Events {
    private static final String NAME = "libweir-logging.so";
    /** weir records 1022 characters of a text: what is far beyond that is not encoded. */
    private static final int TEXT_MAX = 4096;
    private static final VarHandle WORD =
            MethodHandles.byteBufferViewVarHandle(short[].class, ByteOrder.nativeOrder());
    private static final ByteBuffer JUL;
    private static final ByteBuffer LOG4J;

    static {
        ByteBuffer jul = ByteBuffer.allocateDirect(2);
        ByteBuffer log4j = ByteBuffer.allocateDirect(2);
        try {
            load();
            jul = julSemaphore();
            log4j = log4jSemaphore();
        } catch (Throwable why) {
            System.err.println("weir.logging: no " + NAME + ": " + why.getMessage() + "; records of loggers are not events");
        }
        JUL = jul;
        LOG4J = log4j;
    }

    /** Set while a record of this thread is formatted here. */
    private static final ThreadLocal<Boolean> FORMATS = new ThreadLocal<>();

    private Events() {}

    /** Whether a record may be formatted: not what is logged by formatting another, which the program's own handlers format again. */
    static boolean begin() {
        if (FORMATS.get() != null) {
            return false;
        }
        FORMATS.set(Boolean.TRUE);
        return true;
    }

    static void end() {
        FORMATS.remove();
    }

    /** Whether a record of java.util.logging is to become an event: a look at a word in memory. */
    static boolean isJulOn() {
        return (short) WORD.getOpaque(JUL, 0) != 0;
    }

    /** The same for Log4j. */
    static boolean isLog4jOn() {
        return (short) WORD.getOpaque(LOG4J, 0) != 0;
    }

    /** lttng_jul:event; texts: message, logger, class, method. */
    static native void jul(byte[] texts, long millis, int level, int thread);

    /** lttng_log4j:event; texts: message, logger, class, method, file, thread. */
    static native void log4j(byte[] texts, int line, long millis, int level);

    private static native ByteBuffer julSemaphore();

    private static native ByteBuffer log4jSemaphore();

    /** Texts as the library takes them: UTF-8, each ended by a NUL, and without NULs inside. */
    static byte[] texts(String... all) {
        StringBuilder joined = new StringBuilder();
        for (String text : all) {
            if (text != null) {
                String part = text.length() > TEXT_MAX ? text.substring(0, TEXT_MAX) : text;
                joined.append(part.indexOf('\0') < 0 ? part : part.replace("\0", "\\x00"));
            }
            joined.append('\0');
        }
        return joined.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void load() throws Exception {
        String given = System.getProperty("weir.logging.path");
        if (given != null) {
            System.load(new File(given).getAbsolutePath());
            return;
        }
        File folder = new File(Events.class.getProtectionDomain().getCodeSource().getLocation().toURI()).getParentFile();
        for (File file : new File[] {new File(folder, NAME), new File(folder, "../../lib/" + NAME)}) {
            if (file.isFile()) {
                System.load(file.getCanonicalPath());
                return;
            }
        }
        System.loadLibrary("weir-logging");
    }
}
