//! usdt: PostgreSQL's own static probes with a filter on their arguments, under pgbench.
//!
//! First, is what is counted right? pgbench makes so many transactions through one connection while weir counts the events of its
//! server process that a filter accepts. The process waits before it begins (post_auth_delay), so that weir is there for
//! all of it, and ends with its client. The server's own statistics say how many events there were; both are to be the same.
//! A statistic of the whole database has in it what pgbench's other connection did: a run of one transaction says how much.
//!
//! Then, what does it cost? The twins, as for functions ([`super::measure`]), with a filter on the text of each statement, which
//! takes a read of memory by a system call, and with one on a number in a register, at a probe that is passed more often.

use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use testkit::paths::quoted;

use super::running::{LIMIT, POLL};
use super::{Postgres, Server as _, Told, Tracer, Tracing};
use crate::bench::figures::WEIR;
use crate::bench::plan::{Form, Plan};
use crate::bench::report::met;

const TRANSACTIONS: u64 = 20_000;
const SERVER: &str = "server";

/// Events that a filter keeps, and what the server says of them.
struct Case {
    /// As in the server's manual.
    statistic: &'static str,
    probe: &'static str,
    /// `NODE(name)` is the number of a table's or index's file.
    filter: &'static str,
    query: &'static str,
    /// The statistic is that of a database, not of a table that only these transactions touch. How many of how many events in a
    /// row the filter keeps: it sees their numbers, which are consecutive.
    of_database: Option<(i64, i64)>,
}

const fn of_table(
    statistic: &'static str,
    probe: &'static str,
    filter: &'static str,
    query: &'static str,
) -> Case {
    Case { statistic, probe, filter, query, of_database: None }
}

const CASES: [Case; 7] = [
    of_table(
        "n_tup_upd of pgbench_accounts",
        "query__start",
        r#"arg0 == "UPDATE pgbench_accounts*""#,
        "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'pgbench_accounts'",
    ),
    of_table(
        "n_tup_upd of pgbench_tellers and pgbench_branches",
        "query__start",
        r#"arg0 =~ "^UPDATE pgbench_(tellers|branches) ""#,
        "SELECT sum(n_tup_upd) FROM pg_stat_user_tables WHERE relname IN ('pgbench_tellers', 'pgbench_branches')",
    ),
    of_table(
        "n_tup_ins of pgbench_history",
        "query__done",
        r#"arg0 == "INSERT INTO *history*CURRENT_TIMESTAMP);""#,
        "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'pgbench_history'",
    ),
    of_table(
        "idx_scan of pgbench_accounts",
        "query__start",
        r#"arg0 in ("UPDATE pgbench_accounts*", "SELECT abalance*")"#,
        "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'pgbench_accounts'",
    ),
    of_table(
        "heap_blks_hit of pgbench_tellers",
        "buffer__read__done",
        "arg4 == NODE(pgbench_tellers) && arg7 != 0",
        "SELECT heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'pgbench_tellers'",
    ),
    of_table(
        "idx_blks_hit and idx_blks_read of pgbench_accounts_pkey",
        "buffer__read__done",
        "arg4 == NODE(pgbench_accounts_pkey)",
        "SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes WHERE indexrelname = 'pgbench_accounts_pkey'",
    ),
    Case {
        statistic: "3 of 10 of xact_commit of the database",
        probe: "transaction__commit",
        filter: "arg0 % 10 in (3..5)",
        query: "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'",
        of_database: Some((3, 10)),
    },
];

/// What the twins are measured with: a text that has to be read from memory, and a number in a register.
const COSTS: [(&str, &str); 2] =
    [("query__start", r#"arg0 == "UPDATE pgbench_accounts*""#), ("lwlock__acquire", "arg1 == 0")];

pub(in crate::bench) fn measure(plan: &Plan, server: &Postgres) -> Result<()> {
    let weir = &plan.weirs.first().context("no weir")?.program;
    let bench = Bench { weir, server };
    let counts = if plan.form == Form::Full { bench.counts()? } else { Vec::new() };
    let tracings = COSTS.map(|(probe, filter)| {
        (probe.to_owned(), Tracing::counted(format!("{probe} filtered"), bench.options(probe, filter)))
    });
    super::measure_all(plan, server, &tracings, &|mut outcome| {
        outcome.title = format!("{}, its own probes filtered, {} rounds", server.name(), plan.rounds);
        for (statistic, count) in &counts {
            outcome.figures.describe(WEIR, statistic, "", &[count.accepted as f64]);
            outcome.figures.describe(SERVER, statistic, "", &[count.expected as f64]);
            outcome.bars.push(count.bar(statistic));
        }
        outcome
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Count {
    /// By the filter, of so many events.
    accepted: i64,
    events: i64,
    /// By the server.
    expected: i64,
}

impl Count {
    fn bar(&self, statistic: &str) -> String {
        let Count { accepted, events, expected } = self;
        let is_met = accepted == expected;
        format!(
            "bar: {statistic}: {accepted} of {events} events accepted, {expected} by the server: {}",
            met(is_met)
        )
    }
}

struct Bench<'b> {
    weir: &'b Path,
    server: &'b Postgres,
}

impl Bench<'_> {
    fn counts(&self) -> Result<Vec<(&'static str, Count)>> {
        let mut counts = Vec::new();
        self.server.set_autovacuum(false)?;
        for (at, case) in CASES.iter().enumerate() {
            eprintln!("counting {} of {}: {}", at + 1, CASES.len(), case.statistic);
            let count = self.count(case).with_context(|| case.statistic)?;
            eprintln!("  {count:?}");
            counts.push((case.statistic, count));
        }
        self.server.set_autovacuum(true)?;
        Ok(counts)
    }

    fn count(&self, case: &Case) -> Result<Count> {
        let count = match case.of_database {
            None => self.run(case, TRANSACTIONS)?,
            Some((kept, of)) => {
                // What else happens in a run, by other processes.
                let one = self.run(case, 1)?;
                // A process begins with a transaction of its own.
                let all = self.run(case, TRANSACTIONS - 1)?;
                let commits = all.expected - (one.expected - one.events);
                ensure!(commits % of == 0, "{commits} transactions: the server had others");
                Count { expected: commits / of * kept, ..all }
            }
        };
        let Count { accepted, events, .. } = count;
        ensure!(
            0 < accepted && accepted < events,
            "accepted {accepted} of {events}: the filter decides nothing"
        );
        Ok(count)
    }

    fn run(&self, case: &Case, transactions: u64) -> Result<Count> {
        let filter = self.with_nodes(case.filter)?;
        // To ask is a transaction too: of the database in which it is asked.
        let database = if case.of_database.is_some() { "template1" } else { "postgres" };
        let statistic = || self.server.ask(database, case.query);
        let before = statistic()?;
        let told = self.trace(case.probe, &filter, transactions)?;
        Ok(Count { accepted: told.counted as i64, events: told.hits as i64, expected: statistic()? - before })
    }

    /// What weir counted in a whole run of pgbench.
    fn trace(&self, probe: &str, filter: &str, transactions: u64) -> Result<Told> {
        let mut load = self.server.transactions(transactions)?;
        let tracer = Tracer::attach(
            self.weir,
            &Tracing::counted(String::new(), self.options(probe, filter)),
            load.backend,
        )?;
        ensure!(self.server.is_waiting(load.backend), "weir came when the process had begun");
        ensure!(load.process.wait_within(LIMIT)?, "pgbench failed");
        let end = Instant::now() + LIMIT;
        // It writes its statistics last.
        while Path::new(&format!("/proc/{}", load.backend)).exists() {
            ensure!(Instant::now() < end, "process {} does not end", load.backend);
            sleep(POLL);
        }
        tracer.detach()
    }

    fn options(&self, probe: &str, filter: &str) -> Vec<String> {
        let program = quoted(self.server.program());
        let script = format!("usdt:{program}:postgresql:{probe} {{ @ = count(); }}");
        ["--filter", filter, "-e", &script].map(str::to_owned).to_vec()
    }

    fn with_nodes(&self, filter: &str) -> Result<String> {
        let Some((before, rest)) = filter.split_once("NODE(") else { return Ok(filter.to_owned()) };
        let (name, after) = rest.split_once(')').context("NODE( without an end")?;
        let node = self.server.ask("postgres", &format!("SELECT pg_relation_filenode('{name}')"))?;
        Ok(format!("{before}{node}{after}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_met_only_if_it_is_the_servers() {
        let count = |accepted| Count { accepted, events: 140_003, expected: 20_000 };
        assert_eq!(
            count(20_000).bar("n_tup_upd"),
            "bar: n_tup_upd: 20000 of 140003 events accepted, 20000 by the server: met"
        );
        assert!(count(19_999).bar("n_tup_upd").ends_with("NOT met"));
    }
}
