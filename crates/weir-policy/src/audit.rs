//! The audit: one line in the system's log for each process that a run attaches to or detaches from, and for each denial.
//!
//! In: what was done, by whom, to what. Out: one datagram (RFC 3164: `<priority>weir[pid]: text`) of facility authpriv to the
//! socket that syslog daemons and journald listen at; the text is `key=value` words. Values that could be taken for
//! more than they are stand between quotes, with everything but printable ASCII escaped: names of processes and
//! files are whatever somebody called them. Guaranteed: sending never waits. Deliberately not done: keeping what could not be
//! sent; the caller says so, or does not trace.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Where syslog daemons listen, and journald where nothing else does.
const SOCKETS: [&str; 2] = ["/dev/log", "/run/systemd/journal/dev-log"];

/// LOG_AUTHPRIV and LOG_NOTICE (RFC 3164, 4.1.1).
const PRIORITY: u32 = 10 << 3 | 5;

/// A datagram of more may be refused; a value of more says no more.
const VALUE_BYTES_MAX: usize = 512;

/// Words of one line.
#[derive(Clone, Debug, Default)]
pub struct Line(String);

impl Line {
    /// These words, and those of `other`.
    pub fn and(mut self, other: &Line) -> Line {
        self.separate();
        self.0 += &other.0;
        self
    }

    /// With one more `KEY=VALUE`.
    pub fn with(mut self, key: &str, value: impl ToString) -> Line {
        let value = value.to_string();
        self.separate();
        self.0 += key;
        self.0.push('=');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
        if !value.is_empty() && value.len() <= VALUE_BYTES_MAX && value.chars().all(is_plain) {
            self.0 += &value;
            return self;
        }
        self.0.push('"');
        let mut room = VALUE_BYTES_MAX;
        for c in value.chars() {
            let escaped = escape(c);
            if escaped.len() > room {
                self.0 += "...";
                break;
            }
            room -= escaped.len();
            self.0 += &escaped;
        }
        self.0.push('"');
        self
    }

    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
    }
}

fn escape(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        c => c.escape_unicode().to_string(),
    }
}

/// Sends `line` to `socket`, or else to the first of the system's that takes it.
pub fn send(socket: Option<&Path>, line: &Line) -> io::Result<()> {
    let text = format!("<{PRIORITY}>weir[{}]: {}", std::process::id(), line.0);
    first(socket, |opened, path| opened.send_to(text.as_bytes(), path).map(|_| ()))
}

/// Whether a line would be sent: somebody listens, and this process may write there.
pub fn reach(socket: Option<&Path>) -> io::Result<()> {
    first(socket, |opened, path| opened.connect(path))
}

/// Does `work` with `socket`, or else with the first of the system's where it succeeds; the last error, with its path.
fn first(socket: Option<&Path>, work: impl Fn(&UnixDatagram, &Path) -> io::Result<()>) -> io::Result<()> {
    let sockets: Vec<&Path> = match socket {
        Some(socket) => vec![socket],
        None => SOCKETS.iter().map(Path::new).collect(),
    };
    let opened = UnixDatagram::unbound()?;
    opened.set_nonblocking(true)?;
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for path in sockets {
        match work(&opened, path) {
            Ok(()) => return Ok(()),
            Err(error) => refused = io::Error::new(error.kind(), format!("{}: {error}", path.display())),
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, want: &str) {
        assert_eq!(
            Line::default().with("event", "attach").with("comm", value).0,
            format!("event=attach comm={want}")
        );
    }

    #[test]
    fn no_value_can_be_taken_for_more_than_it_is() {
        check("nginx", "nginx");
        check("/usr/lib/x+y/app-1.0", "/usr/lib/x+y/app-1.0");
        check("", "\"\"");
        check("a b", "\"a b\"");
        check("a\nevent=detach uid=0", "\"a\\u{a}event=detach uid=0\"");
        check("a=\"b\\\"", "\"a=\\\"b\\\\\\\"\"");
        check("\x1b[31mé", "\"\\u{1b}[31m\\u{e9}\"");
    }

    #[test]
    fn lines_are_bounded() {
        for value in ["x".repeat(100_000), "é\n".repeat(100_000)] {
            let line = Line::default().with("event", "attach").with("file", value);
            assert!(line.0.len() < 600 && line.0.ends_with("...\""), "{}", line.0);
        }
    }

    #[test]
    fn what_listens_nowhere_is_told_with_its_path() {
        let error =
            send(Some(Path::new("/no/such/socket")), &Line::default().with("event", "attach")).unwrap_err();
        assert!(error.to_string().contains("/no/such/socket"), "{error}");
    }
}
