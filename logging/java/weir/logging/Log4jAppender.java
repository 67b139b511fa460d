package weir.logging;

import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.Appender;
import org.apache.logging.log4j.core.Core;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.config.plugins.Plugin;
import org.apache.logging.log4j.core.config.plugins.PluginAttribute;
import org.apache.logging.log4j.core.config.plugins.PluginElement;
import org.apache.logging.log4j.core.config.plugins.PluginFactory;

/**
 * Records of Log4j 2 as events: lttng_log4j:event, with the fields that LTTng's agent gives it. In a configuration
 * {@code <Weir name="weir"/>} among the appenders, and {@code <AppenderRef ref="weir"/>} in a logger. Nothing is formatted while nobody traces
 * the event.
 */
@Plugin(name = "Weir", category = Core.CATEGORY_NAME, elementType = Appender.ELEMENT_TYPE, printObject = true)
public final class Log4jAppender extends AbstractAppender {
    private Log4jAppender(String name, Filter filter) {
        // Without a layout: an event has fields.
        super(name, filter, null, true, Property.EMPTY_ARRAY);
    }

    /** As a configuration names it. */
    @PluginFactory
    public static Log4jAppender create(@PluginAttribute("name") String name, @PluginElement("Filter") Filter filter) {
        return new Log4jAppender(name == null ? "weir" : name, filter);
    }

    @Override
    public void append(LogEvent event) {
        if (!Events.isLog4jOn() || !Events.begin()) {
            return;
        }
        try {
            StackTraceElement source = event.getSource();
            boolean isKnown = source != null;
            byte[] texts = Events.texts(message(event), event.getLoggerName(), isKnown ? source.getClassName() : null,
                    isKnown ? source.getMethodName() : null, isKnown ? source.getFileName() : null, event.getThreadName());
            Events.log4j(texts, isKnown ? source.getLineNumber() : -1, event.getTimeMillis(), level(event.getLevel()));
        } catch (Throwable why) {
            // What is wrong with a record the program's own appenders report.
        } finally {
            Events.end();
        }
    }

    private static String message(LogEvent event) {
        try {
            return event.getMessage().getFormattedMessage();
        } catch (Throwable why) {
            return event.getMessage().getFormat() + " (not formatted: " + why.getClass().getSimpleName() + ")";
        }
    }

    /** Log4j 1's number of a level, as LTTng has it: larger is more severe. One of the program's own has that of the next standard level below. */
    private static int level(Level level) {
        switch (level.getStandardLevel()) {
            case OFF:
                return Integer.MAX_VALUE;
            case FATAL:
                return 50000;
            case ERROR:
                return 40000;
            case WARN:
                return 30000;
            case INFO:
                return 20000;
            case DEBUG:
                return 10000;
            case TRACE:
                return 5000;
            default:
                return Integer.MIN_VALUE;
        }
    }
}
