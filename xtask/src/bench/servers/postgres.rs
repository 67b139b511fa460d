//! postgres: PostgreSQL on a socket of its own, and pgbench's usual transactions on two connections, the twins: each has a process of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::Signal;
use nix::unistd::User;

use super::running::{LIMIT, POLL, Running, fresh_folder};
use super::{Load, Server, Window, usage};
use crate::process::{self, Guard};

const INIT_LIMIT: Duration = Duration::from_secs(300);
/// Branches of pgbench's tables; 100,000 accounts each.
const SCALE: &str = "10";
/// No waiting for disks.
const UNSYNCED: [&str; 6] = [
    "fsync=off",
    "synchronous_commit=off",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=1h",
    "jit=off",
];
const FUNCTIONS: [&str; 50] = [
    "pg_parse_query",
    "raw_parser",
    "parse_analyze_fixedparams",
    "transformStmt",
    "pg_analyze_and_rewrite_fixedparams",
    "pg_plan_queries",
    "pg_plan_query",
    "planner",
    "standard_planner",
    "subquery_planner",
    "query_planner",
    "CreatePortal",
    "PortalStart",
    "PortalRun",
    "PortalDrop",
    "CreateQueryDesc",
    "FreeQueryDesc",
    "ExecutorStart",
    "standard_ExecutorStart",
    "ExecutorRun",
    "standard_ExecutorRun",
    "ExecutorFinish",
    "ExecutorEnd",
    "ExecInitNode",
    "ExecEndNode",
    "CreateExecutorState",
    "FreeExecutorState",
    "StartTransactionCommand",
    "CommitTransactionCommand",
    "ProcArrayEndTransaction",
    "GetTransactionSnapshot",
    "GetSnapshotData",
    "PushActiveSnapshot",
    "PopActiveSnapshot",
    "LockAcquireExtended",
    "LockRelease",
    "LockReleaseAll",
    "ReadBuffer",
    "ReadBufferExtended",
    "UnlockReleaseBuffer",
    "heap_update",
    "heap_insert",
    "index_open",
    "index_close",
    "index_beginscan",
    "index_endscan",
    "table_open",
    "table_close",
    "XLogInsert",
    "MemoryContextDelete",
];

/// How the server is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bench) enum Settings {
    /// A transaction is over when it is in memory, so that it takes the least CPU time that it can.
    Unsynced,
    /// As `initdb` leaves them: a transaction is over when it is on the disk.
    Defaults,
}

impl Settings {
    fn list(self) -> &'static [&'static str] {
        match self {
            Settings::Unsynced => &UNSYNCED,
            Settings::Defaults => &[],
        }
    }
}

/// How long a connection waits, that weir may come to it.
const DELAY: Duration = Duration::from_secs(3);

/// A running server. Its data is gone with it.
pub(in crate::bench) struct Postgres {
    programs: PathBuf,
    program: PathBuf,
    settings: Settings,
    user: Option<User>,
    running: Running,
}

impl Postgres {
    pub(in crate::bench) fn start(settings: Settings) -> Result<Postgres> {
        let programs = programs().context("PostgreSQL is not installed (package postgresql)")?;
        let folder = fresh_folder("postgres")?;
        // It refuses to run as root.
        let user = match nix::unistd::getuid().is_root() {
            true => Some(User::from_name("postgres")?.context("there is no user postgres")?),
            false => None,
        };
        let at = folder.path();
        if let Some(user) = &user {
            std::os::unix::fs::chown(at, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        fs::set_permissions(at, fs::Permissions::from_mode(0o755))?;
        let data = at.join("data");
        let mut init = as_user(&user, &programs.join("initdb"));
        init.arg("-D").arg(&data).args(["-A", "trust", "-N", "-U", "postgres"]);
        process::output_within(&mut init, INIT_LIMIT)?;
        let mut command = as_user(&user, &programs.join("postgres"));
        command.arg("-D").arg(&data);
        command.args(["-c", &format!("unix_socket_directories={}", at.display())]);
        command.args(["-c", "listen_addresses="]).stderr(Stdio::null());
        command.args(settings.list().iter().flat_map(|setting| ["-c", setting]));
        let mut is_ready = tool(&user, &programs, at, "pg_isready", &[]);
        let answers = || Ok(is_ready.status()?.success());
        let running = Running::start(&mut command, folder, Signal::SIGQUIT, answers)?;
        let program = fs::canonicalize(programs.join("postgres"))?;
        let postgres = Postgres { programs, program, settings, user, running };
        eprintln!("filling pgbench's tables");
        process::output_within(
            &mut postgres.tool("pgbench", &["-i", "-q", "-s", SCALE, "postgres"]),
            INIT_LIMIT,
        )?;
        Ok(postgres)
    }

    fn tool(&self, name: &str, arguments: &[&str]) -> Command {
        tool(&self.user, &self.programs, self.running.folder(), name, arguments)
    }
}

impl Postgres {
    /// The processes that serve clients.
    fn backends(&self) -> Result<Vec<i32>> {
        let is_backend = |pid: &i32| usage::title(*pid).contains("postgres postgres [local]");
        Ok(self.processes()?.into_iter().filter(is_backend).collect())
    }

    /// pgbench's transactions, so many, on one connection; the process that serves it waits before it begins.
    pub(super) fn transactions(&self, count: u64) -> Result<Run> {
        let mut command = self.tool("pgbench", &["-n", "-c", "1", "-t", &count.to_string(), "postgres"]);
        command.env("PGOPTIONS", format!("-c post_auth_delay={}", DELAY.as_secs()));
        let mut process = Guard::spawn(&mut command)?;
        let end = Instant::now() + LIMIT;
        // Its first connection asks for the tables; the second one is for the transactions.
        let mut seen = Vec::new();
        while seen.len() < 2 {
            ensure!(process.is_running()? && Instant::now() < end, "pgbench does not connect");
            let waiting = self.backends()?.into_iter().find(|&pid| self.is_waiting(pid));
            seen.extend(waiting.filter(|pid| !seen.contains(pid)));
            sleep(POLL);
        }
        Ok(Run { process, backend: seen[1] })
    }

    /// Whether the process that serves a client has not begun.
    pub(super) fn is_waiting(&self, backend: i32) -> bool {
        usage::title(backend).trim_end().ends_with(" startup")
    }

    /// Switches on or off what has transactions of its own.
    pub(super) fn set_autovacuum(&self, is_on: bool) -> Result<()> {
        self.query("postgres", &format!("ALTER SYSTEM SET autovacuum = {is_on}"))?;
        self.query("postgres", "SELECT pg_reload_conf()").map(drop)
    }

    /// The number that a query answers.
    pub(super) fn ask(&self, database: &str, query: &str) -> Result<i64> {
        let text = self.query(database, query)?;
        text.parse().with_context(|| format!("{query}: {text:?}"))
    }

    fn query(&self, database: &str, query: &str) -> Result<String> {
        let mut command = self.tool("psql", &["-X", "-A", "-t", "-d", database, "-c", query]);
        let output = process::output_within(&mut command, LIMIT)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Server for Postgres {
    fn name(&self) -> &'static str {
        match self.settings {
            Settings::Unsynced => "PostgreSQL under pgbench",
            Settings::Defaults => "PostgreSQL with its own settings under pgbench",
        }
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn functions(&self) -> &'static [&'static str] {
        &FUNCTIONS
    }

    fn processes(&self) -> Result<Vec<i32>> {
        self.running.processes()
    }

    fn load(&self) -> Result<Box<dyn Load + '_>> {
        let [own, load] = usage::cpus()?;
        let mut clients = Vec::new();
        let mut known = self.backends()?;
        for _ in 0..2 {
            let prefix = self.running.folder().join("transactions");
            let mut command = as_user(&self.user, Path::new("taskset"));
            command.args(["-c", &load.to_string()]).arg(self.programs.join("pgbench"));
            connect(&mut command, self.running.folder());
            command.args(["-n", "-l", "--log-prefix"]).arg(&prefix);
            command.args(["-c", "1", "-T", &super::LOAD_SECONDS.to_string(), "postgres"]);
            let process = Guard::spawn(&mut command)?;
            let log = self.running.folder().join(format!("transactions.{}", process.pid()));
            let end = Instant::now() + LIMIT;
            let backend = loop {
                // Its first connection asks for the tables, and ends before the first transaction.
                let has_begun = fs::metadata(&log).is_ok_and(|log| log.len() > 0);
                let backends = self.backends()?;
                if let Some(&new) = backends.iter().find(|pid| has_begun && !known.contains(pid)) {
                    known = backends;
                    break new;
                }
                ensure!(Instant::now() < end, "pgbench does not connect");
                sleep(POLL);
            };
            usage::pin(backend, own)?;
            clients.push(Client { _process: process, log, backend });
        }
        let clients = clients.try_into().map_err(|_| anyhow!("not two clients"))?;
        Ok(Box::new(Transactions { clients }))
    }
}

/// pgbench, for so many transactions, and the process that serves it.
pub(super) struct Run {
    pub(super) process: Guard,
    pub(super) backend: i32,
}

/// pgbench, and its log: a line for each transaction.
struct Client {
    _process: Guard,
    log: PathBuf,
    backend: i32,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.log);
    }
}

struct Transactions {
    clients: [Client; 2],
}

impl Load for Transactions {
    fn twins(&self) -> [i32; 2] {
        [0, 1].map(|twin| self.clients[twin].backend)
    }

    fn open(&mut self, _window: Window) -> Result<()> {
        Ok(())
    }

    /// The time of day.
    fn mark(&mut self) -> Result<[f64; 2]> {
        Ok([SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64(); 2])
    }

    fn close(&mut self, from: [f64; 2], to: [f64; 2]) -> Result<[(f64, f64); 2]> {
        let mut out = [(0.0, 0.0); 2];
        for (twin, client) in self.clients.iter().enumerate() {
            out[twin] = client.answered(from[twin], to[twin])?;
        }
        Ok(out)
    }
}

impl Client {
    /// Waits for the log to come so far: pgbench writes it in blocks.
    fn answered(&self, from: f64, to: f64) -> Result<(f64, f64)> {
        let end = Instant::now() + LIMIT;
        let transactions = loop {
            let text =
                fs::read_to_string(&self.log).with_context(|| format!("no log {}", self.log.display()))?;
            let transactions: Vec<(f64, f64)> = text.lines().filter_map(transaction).collect();
            if transactions.last().is_some_and(|last| last.0 >= to) {
                break transactions;
            }
            ensure!(Instant::now() < end, "pgbench logs nothing any more");
            sleep(POLL);
        };
        let is_meant = |(at, _): &&(f64, f64)| (from..to).contains(at);
        let mut latencies: Vec<f64> = transactions.iter().filter(is_meant).map(|t| t.1).collect();
        ensure!(!latencies.is_empty(), "pgbench logged no transaction");
        latencies.sort_unstable_by(f64::total_cmp);
        let rank = (latencies.len() as f64 * 0.999).ceil() as usize;
        Ok((latencies.len() as f64, latencies[rank - 1]))
    }
}

/// A line of the log: when the transaction ended, and how many milliseconds it took.
fn transaction(line: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<f64>().ok();
    Some((number(4)? + number(5)? / 1e6, number(2)? / 1e3))
}

/// A client's program, for the server whose socket is in `folder`.
fn tool(user: &Option<User>, programs: &Path, folder: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = as_user(user, &programs.join(name));
    connect(&mut command, folder);
    command.args(arguments);
    command
}

/// What every client's program is to be given.
fn connect(command: &mut Command, folder: &Path) {
    command.arg("-h").arg(folder).args(["-U", "postgres"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
}

fn as_user(user: &Option<User>, program: &Path) -> Command {
    let Some(user) = user else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid)]);
    command.arg("--clear-groups").arg(program);
    // Its own folder may be closed to that user.
    command.current_dir("/");
    command
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    folders.filter(|folder| folder.join("initdb").is_file()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_pgbenchs_log_has_an_end_and_a_latency() {
        assert_eq!(transaction("0 199 2241 0 1175850568 995598"), Some((1_175_850_568.995_598, 2.241)));
        assert_eq!(transaction("0 199"), None);
    }
}
