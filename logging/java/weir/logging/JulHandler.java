package weir.logging;

import java.lang.instrument.Instrumentation;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * Records of java.util.logging as events: lttng_jul:event, with the fields that LTTng's agent gives it. A handler like others
 * (handlers=weir.logging.JulHandler in logging.properties, or Logger.addHandler); with -javaagent:weir-logging.jar it is one of the root
 * logger's, and stays there where the configuration is read again or reset. Nothing is formatted while nobody traces the event, and no
 * exception reaches the program.
 */
public final class JulHandler extends Handler {
    private static final Formatter MESSAGES = new Formatter() {
        @Override
        public String format(LogRecord record) {
            return formatMessage(record);
        }
    };
    private static volatile JulHandler ofAgent;

    /** Before the program's main. */
    public static void premain(String options, Instrumentation instrumentation) {
        try {
            // Loads the library, and says so if there is none.
            Events.isJulOn();
            ofAgent = new JulHandler();
            install();
            LogManager.getLogManager().addConfigurationListener(JulHandler::install);
        } catch (Throwable why) {
            System.err.println("weir.logging: " + why + "; records of java.util.logging are not events");
        }
    }

    /** In a program that runs: {@code jcmd PID JVMTI.agent_load /…/weir-logging.jar}. */
    public static void agentmain(String options, Instrumentation instrumentation) {
        if (ofAgent == null) {
            premain(options, instrumentation);
        }
    }

    private static void install() {
        Logger root = Logger.getLogger("");
        JulHandler handler = ofAgent;
        if (handler != null) {
            root.removeHandler(handler);
            root.addHandler(handler);
        }
    }

    @Override
    public void publish(LogRecord record) {
        if (!Events.isJulOn() || !isLoggable(record) || !Events.begin()) {
            return;
        }
        try {
            byte[] texts = Events.texts(message(record), record.getLoggerName(), record.getSourceClassName(),
                    record.getSourceMethodName());
            Events.jul(texts, record.getMillis(), record.getLevel().intValue(), record.getThreadID());
        } catch (Throwable why) {
            // What is wrong with a record the program's own handlers report.
        } finally {
            Events.end();
        }
    }

    private static String message(LogRecord record) {
        try {
            return MESSAGES.formatMessage(record);
        } catch (Throwable why) {
            return record.getMessage() + " (not formatted: " + why.getClass().getSimpleName() + ")";
        }
    }

    @Override
    public void flush() {}

    /** LogManager.reset closes the handlers that it has taken away. */
    @Override
    public void close() {
        if (this == ofAgent) {
            install();
        }
    }
}
