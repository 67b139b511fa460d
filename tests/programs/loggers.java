// Logs by java.util.logging what a handler may stumble over: tests of logging (docs/logging.md). What is on standard output has to be the same
// whether records are traced or not.
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.Logger;

class Loggers {
    static class Bad {
        @Override
        public String toString() {
            throw new IllegalStateException("no text");
        }
    }

    public static void main(String[] arguments) throws Exception {
        Logger log = Logger.getLogger("shop.sales");
        for (Handler handler : Logger.getLogger("").getHandlers()) {
            handler.setLevel(handler instanceof java.util.logging.ConsoleHandler ? Level.OFF : Level.ALL);
        }
        log.log(Level.WARNING, "sold {0} {1}", new Object[] {3, "books"});
        log.fine("of a level that the logger does not take");
        log.info("nul \0 and \ud83d\ude00");
        log.log(Level.SEVERE, "bad {0}", new Bad());
        LogManager.getLogManager().reset();
        log.info("after a reset");
        Thread thread = new Thread(() -> log.info("in a thread"));
        thread.start();
        thread.join();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> log.info("in a shutdown hook")));
        System.out.println("done");
        System.exit(7);
    }
}
