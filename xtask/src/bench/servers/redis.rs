//! redis: two servers with a redis-benchmark each, the twins, on sockets of their own.
//!
//! At its end each command passes `slowlogPushEntryIfNeeded`, whose fourth argument is the microseconds that it took: that event is
//! recorded, with these and with the name, which stands behind two addresses: `argv[0]->ptr`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use super::running::{LIMIT, Running, fresh_folder};
use super::{Load, Server, Tracing, Window, usage};
use crate::process::{self, Guard};

/// Of a server, in its folder. Relative: a socket's path has 107 bytes at most.
const SOCKET: &str = "socket";
/// What the project promises of a server whose commands are all recorded: CPU time of a command beside that of an unprobed server.
const RATIO_MAX: f64 = 1.03;
/// Microseconds of a command that asks for a snapshot.
const SLOW_US: u32 = 20_000;
/// What all clients of a benchmark ask for, again and again.
const COMMANDS: &str = "set,get,incr,lpush,hset";

/// Two running servers. Their folders are gone with them.
pub(in crate::bench) struct Redis {
    program: PathBuf,
    twins: [Running; 2],
}

impl Redis {
    pub(in crate::bench) fn start() -> Result<Redis> {
        let program = process::find_program("redis-server");
        let program = program.context("redis is not installed (package redis-server)")?;
        let twins = [start(&program, "redis-first")?, start(&program, "redis-second")?];
        Ok(Redis { program, twins })
    }
}

fn start(program: &Path, name: &str) -> Result<Running> {
    let folder = fresh_folder(name)?;
    let [own, _] = usage::cpus()?;
    let at = folder.path().to_owned();
    let mut command = usage::on_cpu(own, program);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", SOCKET]);
    command.current_dir(&at).stderr(Stdio::null());
    let answers = || Ok(ask(&at, &["PING"]).is_ok_and(|answer| answer.trim() == "PONG"));
    Running::start(&mut command, folder, Signal::SIGTERM, answers)
}

/// Every command of the server.
pub(in crate::bench) fn commands_recorded(redis: &Redis) -> Tracing {
    let options = ["-e", &end(redis)].map(str::to_owned);
    Tracing::recorded("every command recorded", options.to_vec(), RATIO_MAX)
}

/// The same, filtered, in a flight recorder; a slow one asks for a snapshot.
pub(in crate::bench) fn commands_in_flight(redis: &Redis) -> Tracing {
    let slow = format!("took > {SLOW_US}");
    let options = [
        "-e",
        &end(redis),
        "--filter",
        "took >= 0",
        "--overwrite",
        "--snapshot-at-end",
        "--snapshot-on",
        &slow,
    ];
    Tracing::recorded("a flight recorder of commands", options.map(str::to_owned).to_vec(), RATIO_MAX)
}

/// `slowlogPushEntryIfNeeded(client *, robj **argv, int argc, long long duration)`.
fn end(redis: &Redis) -> String {
    let (program, fields) = (redis.program.display(), "name=+0(+8(+0(%si))):string took=%cx:s64");
    format!("uprobe:{program}:slowlogPushEntryIfNeeded {fields}")
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis under redis-benchmark"
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn processes(&self) -> Result<Vec<i32>> {
        Ok(self.twins.iter().map(Running::pid).collect())
    }

    fn load(&self) -> Result<Box<dyn Load + '_>> {
        let benchmark = process::find_program("redis-benchmark").context("there is no redis-benchmark")?;
        let [_, load] = usage::cpus()?;
        let mut clients = Vec::new();
        for twin in &self.twins {
            let mut command = usage::on_cpu(load, &benchmark);
            command.current_dir(twin.folder()).args(["-s", SOCKET, "-c", "8", "-l", "-q", "-t", COMMANDS]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            clients.push(Guard::spawn(&mut command)?);
        }
        Ok(Box::new(Commands { redis: self, _clients: clients }))
    }
}

struct Commands<'r> {
    redis: &'r Redis,
    _clients: Vec<Guard>,
}

impl Load for Commands<'_> {
    fn twins(&self) -> [i32; 2] {
        [0, 1].map(|twin| self.redis.twins[twin].pid())
    }

    /// Also what `lpush` has made of the data, which would grow from window to window, is gone.
    fn open(&mut self, _window: Window) -> Result<()> {
        for twin in &self.redis.twins {
            ask(twin.folder(), &["FLUSHALL"])?;
            ask(twin.folder(), &["CONFIG", "RESETSTAT"])?;
        }
        Ok(())
    }

    /// Commands that each server has answered.
    fn mark(&mut self) -> Result<[f64; 2]> {
        let mut marks = [0.0; 2];
        for (mark, twin) in marks.iter_mut().zip(&self.redis.twins) {
            let said = ask(twin.folder(), &["INFO", "stats"])?;
            *mark = field(&said, "total_commands_processed:").context("no count of commands")?;
        }
        Ok(marks)
    }

    /// Latencies are those that the server has of its commands, the slowest kind.
    fn close(&mut self, from: [f64; 2], to: [f64; 2]) -> Result<[(f64, f64); 2]> {
        let mut out = [(0.0, 0.0); 2];
        for (twin, running) in self.redis.twins.iter().enumerate() {
            let said = ask(running.folder(), &["INFO", "latencystats"])?;
            let slowest = said.lines().filter_map(|line| field(line.split_once(",p99.9=")?.1, ""));
            out[twin] = (to[twin] - from[twin], slowest.fold(0.0, f64::max) / 1e3);
        }
        Ok(out)
    }
}

/// Asks the server that was started in `folder`.
fn ask(folder: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("redis-cli");
    command.current_dir(folder).args(["-s", SOCKET]).args(words).stdin(Stdio::null());
    let output = process::output_within(&mut command, LIMIT)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The number of the first line that begins so.
fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.trim().strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_the_server_says() {
        let said = "# Stats\r\ntotal_connections_received:7\r\ntotal_commands_processed:1234\r\n";
        assert_eq!(field(said, "total_commands_processed:"), Some(1234.0));
        assert_eq!(field("5.023\r\n", ""), Some(5.023));
        assert_eq!(field(said, "uptime:"), None);
    }
}
