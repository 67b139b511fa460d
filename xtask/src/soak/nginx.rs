//! nginx, as a server of files on a socket of its own.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process::{self, Guard};
use crate::soak::functions::{Folder, Server};
use crate::workspace;

/// One process, everything in its own folder.
const CONFIGURATION: &str = "daemon off; master_process off; error_log stderr crit; pid nginx.pid;\n\
    events { worker_connections 64; }\n\
    http {\n access_log off; gzip on; gzip_http_version 1.0; gzip_min_length 100; gzip_types *; keepalive_timeout 5;\n\
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
    server { listen unix:SOCKET; root files; server_tokens off;\n\
    location /again { rewrite ^/again(.*)$ $1 last; }\n location /no { return 404; } } }\n";

struct Nginx {
    process: Guard,
    folder: Folder,
}

pub(super) fn server() -> Result<Box<dyn Server>> {
    let folder = workspace::target_folder("soak")?.join(format!("nginx-{}", std::process::id()));
    let files = folder.join("files");
    fs::create_dir_all(&files)?;
    fs::write(files.join("small"), "a small file\n")?;
    fs::write(files.join("large"), (0..200_000).map(|n| format!("{n} ")).collect::<String>())?;
    let configuration = CONFIGURATION.replace("SOCKET", &folder.join("socket").display().to_string());
    fs::write(folder.join("nginx.conf"), configuration)?;
    let program = process::find_program("nginx").context("nginx is not installed")?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&folder).args(["-c", "nginx.conf"]).stdin(Stdio::null()).stdout(Stdio::null());
    let server = Nginx { process: Guard::spawn(&mut command)?, folder: Folder(folder) };
    let end = Instant::now() + Duration::from_secs(20);
    while server.ask("/small", "").is_err() {
        ensure!(Instant::now() < end, "nginx does not answer");
        sleep(Duration::from_millis(20));
    }
    Ok(Box::new(server))
}

impl Nginx {
    fn ask(&self, path: &str, header: &str) -> Result<Vec<u8>> {
        let mut stream = UnixStream::connect(self.folder.0.join("socket"))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: weir\r\n{header}Connection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

impl Server for Nginx {
    fn pid(&self) -> i32 {
        self.process.pid()
    }

    fn answers(&self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..50 {
            for (path, header) in [
                ("/small", ""),
                ("/large", ""),
                ("/large", "Accept-Encoding: gzip\r\n"),
                ("/large", "Range: bytes=100-199,5000-5100\r\n"),
                ("/again/small", ""),
                ("/no", ""),
                ("/not-there", ""),
                ("/../..", ""),
            ] {
                all.extend(without_what_changes(&self.ask(path, header)?));
            }
        }
        Ok(all)
    }
}

/// The answer without its date, and without the boundary of its parts, a number that counts up.
fn without_what_changes(answer: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(answer);
    let changes =
        |line: &&str| line.starts_with("Date:") || line.contains("boundary=") || line.starts_with("--0");
    text.split_inclusive("\r\n").filter(|line| !changes(line)).collect::<String>().into_bytes()
}
