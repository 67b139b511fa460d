//! nginx: two servers with one worker each, the twins, which serve a page over loopback to a wrk each, on 16 connections.
//!
//! The page is one of two ([`Page`]): the least that nginx can have to do for a request, and what a browser gets from nginx as Debian
//! configures it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use super::running::{LIMIT, Running, fresh_folder};
use super::{Load, Server, Window, usage};
use crate::process::{self, Guard};

const CONFIGURATION: &str = "daemon off; worker_processes 1; error_log stderr crit; pid nginx.pid;\n\
    events { worker_connections 256; }\n\
    http {\n access_log off; keepalive_requests 1000000000; gzip on;\n\
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
    server { listen 127.0.0.1:PORT; root files; server_tokens off; location /status { stub_status; } } }\n";
/// Prints what no option of wrk does.
const REPORT: &str = "done = function(summary, latency) io.write(string.format(\"p99.9 %d us\\n\", latency:percentile(99.9))) end\n";
/// Bytes of the larger page: what the page itself of a web site has, without its pictures and scripts (half of all have more).
const PAGE_BYTES: usize = 30_000;
const FUNCTIONS: [&str; 50] = [
    "ngx_http_create_request",
    "ngx_http_parse_request_line",
    "ngx_http_process_request_uri",
    "ngx_http_parse_header_line",
    "ngx_http_process_request_header",
    "ngx_http_process_request",
    "ngx_http_handler",
    "ngx_http_core_run_phases",
    "ngx_http_core_generic_phase",
    "ngx_http_core_rewrite_phase",
    "ngx_http_core_find_config_phase",
    "ngx_http_core_post_rewrite_phase",
    "ngx_http_core_access_phase",
    "ngx_http_core_post_access_phase",
    "ngx_http_core_content_phase",
    "ngx_http_update_location_config",
    "ngx_http_map_uri_to_path",
    "ngx_http_discard_request_body",
    "ngx_http_set_etag",
    "ngx_http_set_exten",
    "ngx_http_set_content_type",
    "ngx_http_send_header",
    "ngx_http_output_filter",
    "ngx_http_write_filter",
    "ngx_http_finalize_request",
    "ngx_http_free_request",
    "ngx_http_run_posted_requests",
    "ngx_http_test_content_type",
    "ngx_http_cleanup_add",
    "ngx_http_gzip_ok",
    "ngx_create_pool",
    "ngx_destroy_pool",
    "ngx_palloc",
    "ngx_pcalloc",
    "ngx_pnalloc",
    "ngx_array_create",
    "ngx_array_push",
    "ngx_list_push",
    "ngx_hash_find",
    "ngx_open_cached_file",
    "ngx_pool_cleanup_add",
    "ngx_chain_update_chains",
    "ngx_chain_get_free_buf",
    "ngx_chain_update_sent",
    "ngx_output_chain",
    "ngx_linux_sendfile_chain",
    "ngx_writev",
    "ngx_unix_recv",
    "ngx_event_expire_timers",
    "ngx_event_process_posted",
];

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bench) enum Page {
    /// A file of half a kilobyte as it is: 6 µs of CPU time.
    Small,
    /// A page of HTML, compressed for each request, as `gzip on` has it (Debian's nginx.conf does) for whoever takes it (browsers do).
    Compressed,
}

impl Page {
    fn text(self) -> String {
        match self {
            Page::Small => "<html>a small page</html>\n".repeat(20),
            Page::Compressed => page(),
        }
    }

    /// What the client takes, and what its answers say then.
    fn headers(self) -> &'static [&'static str] {
        match self {
            Page::Small => &[],
            Page::Compressed => &["-H", "Accept-Encoding: gzip"],
        }
    }
}

/// Paragraphs of words, the same each time, which become a fifth of their size, as text does.
fn page() -> String {
    let mut state = 7;
    let mut number = |below: u64| testkit::random::next(&mut state) % below;
    let words: Vec<String> =
        (0..600).map(|_| (0..2 + number(8)).map(|_| char::from(b'a' + number(26) as u8)).collect()).collect();
    let mut text = String::from("<!DOCTYPE html>\n<html><head><title>a page</title></head><body>\n");
    while text.len() < PAGE_BYTES {
        text += "<p class=\"entry\">";
        for _ in 0..40 + number(40) {
            // The frequent ones are much more frequent.
            let word = number(600) * number(600) / 600;
            text += &words[word as usize];
            text += " ";
        }
        text += "</p>\n";
    }
    text + "</body></html>\n"
}

/// Two running servers, the twins. Their folders are gone with them.
pub(in crate::bench) struct Nginx {
    program: PathBuf,
    page: Page,
    twins: [Twin; 2],
}

struct Twin {
    port: u16,
    page: Page,
    running: Running,
}

impl Nginx {
    pub(in crate::bench) fn start(page: Page) -> Result<Nginx> {
        let program = process::find_program("nginx").context("nginx is not installed (package nginx)")?;
        process::find_program("wrk").context("wrk is not installed (package wrk)")?;
        let twins =
            [Twin::start(&program, "nginx-first", page)?, Twin::start(&program, "nginx-second", page)?];
        Ok(Nginx { program: fs::canonicalize(program)?, page, twins })
    }
}

impl Twin {
    fn start(program: &Path, name: &str, page: Page) -> Result<Twin> {
        let folder = fresh_folder(name)?;
        let at = folder.path();
        fs::create_dir_all(at.join("files"))?;
        fs::write(at.join("files/index.html"), page.text())?;
        fs::write(at.join("report.lua"), REPORT)?;
        // Whoever takes it in between makes the start fail, which is told.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        fs::write(at.join("nginx.conf"), CONFIGURATION.replace("PORT", &port.to_string()))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(at).args(["-c", "nginx.conf", "-g", "user root;"]);
        let answers = || Ok(requests(port).is_ok());
        let twin =
            Twin { port, page, running: Running::start(&mut command, folder, Signal::SIGTERM, answers)? };
        usage::pin(twin.worker()?, usage::cpus()?[0])?;
        Ok(twin)
    }

    fn worker(&self) -> Result<i32> {
        let processes = self.running.processes()?;
        let worker = processes.into_iter().find(|&pid| pid != self.running.pid());
        worker.context("nginx has no worker")
    }

    /// wrk, for one window.
    fn load(&self, window: Window) -> Result<Guard> {
        let mut command = usage::on_cpu(usage::cpus()?[1], Path::new("wrk"));
        // Attaching and detaching takes a part of a second; wrk takes whole ones.
        let seconds = (window.length() + Duration::from_millis(500)).as_secs_f64().ceil();
        command
            .args(["-t1", "-c16", &format!("-d{seconds}s"), "-s"])
            .arg(self.running.folder().join("report.lua"))
            .args(self.page.headers());
        command.arg(format!("http://127.0.0.1:{}/index.html", self.port));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Guard::spawn(&mut command)
    }
}

impl Server for Nginx {
    fn name(&self) -> &'static str {
        match self.page {
            Page::Small => "nginx under wrk",
            Page::Compressed => "nginx with compressed pages under wrk",
        }
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn functions(&self) -> &'static [&'static str] {
        &FUNCTIONS
    }

    fn processes(&self) -> Result<Vec<i32>> {
        let [first, second] = &self.twins;
        let mut processes = first.running.processes()?;
        processes.extend(second.running.processes()?);
        Ok(processes)
    }

    fn load(&self) -> Result<Box<dyn Load + '_>> {
        let workers = [self.twins[0].worker()?, self.twins[1].worker()?];
        Ok(Box::new(Requests { twins: &self.twins, workers, loads: Vec::new() }))
    }
}

/// wrk for each twin, which counts its requests by itself.
struct Requests<'s> {
    twins: &'s [Twin; 2],
    workers: [i32; 2],
    loads: Vec<Guard>,
}

impl Load for Requests<'_> {
    fn twins(&self) -> [i32; 2] {
        self.workers
    }

    fn open(&mut self, window: Window) -> Result<()> {
        self.loads = self.twins.iter().map(|twin| twin.load(window)).collect::<Result<_>>()?;
        Ok(())
    }

    /// Requests so far.
    fn mark(&mut self) -> Result<[f64; 2]> {
        Ok([requests(self.twins[0].port)?, requests(self.twins[1].port)?])
    }

    /// The latency is that of the whole window: wrk keeps no times.
    fn close(&mut self, from: [f64; 2], to: [f64; 2]) -> Result<[(f64, f64); 2]> {
        let mut out = [(0.0, 0.0); 2];
        for (twin, mut process) in self.loads.drain(..).enumerate() {
            let mut text = String::new();
            let mut stdout = process.0.stdout.take().context("wrk has no output")?;
            stdout.read_to_string(&mut text)?;
            ensure!(process.wait_within(LIMIT)?, "wrk failed: {text}");
            ensure!(!text.contains("Non-2xx"), "nginx refused requests: {text}");
            let us = percentile_us(&text).with_context(|| format!("wrk printed no percentile: {text}"))?;
            out[twin] = (to[twin] - from[twin], us / 1e3);
        }
        Ok(out)
    }
}

fn percentile_us(out: &str) -> Option<f64> {
    let line = out.lines().find_map(|line| line.strip_prefix("p99.9 "))?;
    line.strip_suffix(" us")?.parse().ok()
}

/// How many requests the server has answered.
fn requests(port: u16) -> Result<f64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET /status HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    requests_in(&answer).with_context(|| format!("no number of requests in {answer:?}"))
}

/// The third number behind `server accepts handled requests`.
fn requests_in(answer: &str) -> Option<f64> {
    let (_, numbers) = answer.split_once("handled requests")?;
    numbers.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_the_status_page() {
        let page = "Active connections: 1 \nserver accepts handled requests\n 16 16 31070465 \nReading: 0 Writing: 1";
        assert_eq!(requests_in(page), Some(31_070_465.0));
        assert_eq!(requests_in("404"), None);
    }

    #[test]
    fn the_page_is_of_its_size_and_the_same_each_time() {
        let text = page();
        assert!((PAGE_BYTES..PAGE_BYTES + 1000).contains(&text.len()), "{}", text.len());
        assert_eq!(text, page());
    }

    #[test]
    fn the_percentile_is_what_the_report_prints() {
        assert_eq!(percentile_us("Requests/sec: 1\np99.9 1234 us\n"), Some(1234.0));
    }
}
