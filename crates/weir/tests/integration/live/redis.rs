//! A loaded redis-server, probed and let go again and again.
//!
//! WEIR_REDIS_CYCLES sets how often (3 in a plain run).

use crate::live::server::{Redis, Traced, number};

/// Commands of the load that a traced server is to process before it is looked at.
const COMMANDS: u64 = 10_000;

#[test]
fn is_probed_and_let_go_under_load() {
    let cycles = std::env::var("WEIR_REDIS_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let Some(redis) = Redis::start("redis-cycles") else { return };
    let script = "uprobe:redis-server:processCommand { @commands = count(); } \
                  uprobe:libjemalloc.so.2:malloc { @mallocs = count(); @bytes = hist(arg0); }";
    let mut load = redis.load();
    for cycle in 0..cycles {
        let before = redis.text();

        // Attached and let go in the middle of the load.
        let traced = Traced::start(&redis, "redis-loaded", script);
        redis.has_processed(COMMANDS);
        assert!(redis.answers(), "cycle {cycle}");
        let text = traced.stop();
        assert!(number(&text, "@commands") > 0, "cycle {cycle}: {text}");
        assert!(number(&text, "@mallocs") > 0, "cycle {cycle}: {text}");
        assert!(redis.answers(), "cycle {cycle}");
        assert_eq!(redis.text(), before, "cycle {cycle}");

        // The load stands still at both ends, so that the server's own counter covers the same commands: INFO counts
        // itself after it has answered, so the one before attaching is in the rise, as the last one is in ours.
        load.pause(&redis);
        let start = redis.commands_processed();
        let traced = Traced::start(&redis, "redis-exact", script);
        load.resume();
        redis.has_processed(COMMANDS);
        load.pause(&redis);
        let end = redis.commands_processed();
        let text = traced.stop();
        assert_eq!(number(&text, "@commands"), end - start, "cycle {cycle}: {text}");
        assert_eq!(redis.text(), before, "cycle {cycle}");
        load.resume();
        eprintln!("cycle {cycle}: {} commands", end - start);
    }
    assert!(load.is_running(), "the load ended before the test");
}
