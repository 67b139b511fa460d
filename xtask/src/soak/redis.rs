//! redis: weir attaches to and detaches from a redis-server that is under load.
//!
//! A cycle: a server on a socket of its own, redis-benchmark running against it; weir attaches under that load and
//! counts `processCommand` and the allocator's `malloc`. The load stops for a moment twice, once after attaching
//! and once before detaching, and each time weir's count is compared with the server's own: what `processCommand`
//! rose by equals what `total_commands_processed` rose by. weir detaches under load; the server answers
//! throughout, and its code is what it was.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use testkit::paths::quoted;

use crate::process::{self, Guard};
use crate::soak::Random;
use crate::soak::functions;
use crate::soak::target::Code;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(60);
/// How often the script prints its count.
const PRINT_MS: u64 = 50;

pub(super) fn cycle(weir: &Path, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let server = Server::start()?;
    let before = Code::of(server.process.pid())?;
    let out = workspace::target_folder("soak")?.join("redis.out");
    let _ = fs::remove_file(&out);

    let load = server.load()?;
    sleep(Duration::from_millis(random.below(100)));
    let mut tracer = trace(weir, &server, &out)?;
    wait_for(|| Ok(last_count(&out)? > 0)).context("weir counts nothing under load")?;
    drop(load);

    let (counted, commands) = server.settle(&out)?;
    let load = server.load()?;
    sleep(Duration::from_millis(500 + random.below(500)));
    drop(load);
    let (counted_later, commands_later) = server.settle(&out)?;
    let (by_weir, by_server) = (counted_later - counted, commands_later - commands);
    ensure!(by_weir == by_server, "weir counted {by_weir} commands, the server {by_server}");
    ensure!(by_server > 1000, "only {by_server} commands: no load");

    let load = server.load()?;
    sleep(Duration::from_millis(random.below(100)));
    tracer.signal(Signal::SIGINT)?;
    ensure!(tracer.wait_within(LIMIT)?, "weir failed");
    server.ask(&["PING"]).context("after detaching")?;
    drop(load);
    let found = fs::read_to_string(&out)?;
    ensure!(counts_in(&found, "@mallocs: ").is_some_and(|count| count > 0), "no malloc was counted");
    before.check_same(&Code::of(server.process.pid())?)
}

fn trace(weir: &Path, server: &Server, out: &Path) -> Result<Guard> {
    let binary = quoted(&server.program);
    let script = format!(
        "uprobe:{binary}:processCommand {{ @commands = count(); }} \
         uprobe:{}:malloc {{ @mallocs = count(); }} \
         interval:ms:{PRINT_MS} {{ print(@commands); }}",
        server.allocator()?
    );
    let mut command = Command::new(weir);
    command.args(["trace", "-o"]).arg(out).args(["-e", &script, "-p", &server.process.pid().to_string()]);
    Guard::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()))
}

/// What weir printed last; 0 before it printed anything.
fn last_count(out: &Path) -> Result<u64> {
    let text = if out.exists() { fs::read_to_string(out)? } else { String::new() };
    Ok(counts_in(&text, "@commands: ").unwrap_or(0))
}

/// The number of the last whole line that starts so.
fn counts_in(text: &str, start: &str) -> Option<u64> {
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().filter_map(|line| line.strip_prefix(start)?.trim().parse().ok()).next_back()
}

fn wait_for(mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !done()? {
        if Instant::now() > end {
            bail!("not within {} s", LIMIT.as_secs());
        }
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A server whose answers to a fixed list of commands are compared.
pub(super) fn server() -> Result<Box<dyn functions::Server>> {
    Ok(Box::new(Server::start()?))
}

impl functions::Server for Server {
    fn pid(&self) -> i32 {
        self.process.pid()
    }

    fn answers(&self) -> Result<Vec<u8>> {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(&self.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn().context("cannot start redis-cli")?;
        let mut input = client.stdin.take().context("redis-cli has no input")?;
        input.write_all(COMMANDS.as_bytes())?;
        drop(input);
        Ok(process::finish_within(client, LIMIT)?.stdout)
    }
}

/// Of every data type, and a script.
const COMMANDS: &str = include_str!("load/commands.redis");

struct Server {
    program: PathBuf,
    socket: PathBuf,
    process: Guard,
}

impl Server {
    fn start() -> Result<Server> {
        let program = process::find_program("redis-server").context("redis-server is not installed")?;
        // Debian's redis-server may be a link to redis-check-rdb's binary: probe the file itself.
        let program = program.canonicalize()?;
        let socket = workspace::target_folder("soak")?.join(format!("redis-{}.sock", std::process::id()));
        let _ = fs::remove_file(&socket);
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let server = Server { process: Guard::spawn(&mut command)?, program, socket };
        wait_for(|| Ok(server.ask(&["PING"]).is_ok())).context("redis-server does not answer")?;
        Ok(server)
    }

    /// redis-benchmark, until it is dropped.
    fn load(&self) -> Result<Guard> {
        let mut command = Command::new("redis-benchmark");
        command.arg("-s").arg(&self.socket).args(["-q", "-t", "get,set", "-n", "100000000", "-c", "20"]);
        Guard::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// What one command answers.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("redis-cli");
        let output = process::output_within(command.arg("-s").arg(&self.socket).args(words), LIMIT)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The library whose malloc the server uses: jemalloc where it is linked, else libc.
    fn allocator(&self) -> Result<String> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process.pid()))?;
        let jemalloc = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .find(|path| path.contains("jemalloc"));
        Ok(jemalloc.unwrap_or("libc").to_string())
    }

    /// Without load: what weir and the server have counted. Both stand still but for the question itself, which
    /// `processCommand` counts when it comes and the server after it was answered; so the server's number is asked
    /// first, and weir's is the one that stands still after it, less that question.
    fn settle(&self, out: &Path) -> Result<(u64, u64)> {
        wait_for(|| {
            let before = self.processed()?;
            sleep(Duration::from_millis(20));
            Ok(self.processed()? == before + 1)
        })
        .context("commands go on without load")?;
        let processed = self.processed()?;
        let mut last = last_count(out)?;
        let mut still_since = Instant::now();
        wait_for(|| {
            let count = last_count(out)?;
            if count != last {
                (last, still_since) = (count, Instant::now());
            }
            Ok(still_since.elapsed() > Duration::from_millis(4 * PRINT_MS))
        })?;
        Ok((last - 1, processed))
    }

    fn processed(&self) -> Result<u64> {
        let info = self.ask(&["INFO", "stats"])?;
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.and_then(|count| count.trim().parse().ok()).context("no total_commands_processed in INFO")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_whole_lines() {
        assert_eq!(counts_in("@commands: 5\n@commands: 17\n@commands: 1", "@commands: "), Some(17));
        assert_eq!(counts_in("@commands: 1", "@commands: "), None);
        assert_eq!(counts_in("", "@commands: "), None);
    }

    #[test]
    fn a_server_counts_its_questions() {
        if process::find_program("redis-server").is_none() || process::find_program("redis-cli").is_none() {
            println!("SKIP soak::redis::a_server_counts_its_questions: no redis-server or redis-cli");
            return;
        }
        let server = Server::start().unwrap();
        let first = server.processed().unwrap();
        assert_eq!(server.processed().unwrap(), first + 1);
        server.allocator().unwrap();
    }
}
