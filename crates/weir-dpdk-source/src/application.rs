//! A DPDK application that is running: where its socket is, and what ports it has.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use serde_json::Value;

use crate::error::Error;
use crate::limits::PORTS_MAX;
use crate::telemetry::Telemetry;

/// A running application.
#[derive(Debug)]
pub struct Application {
    pub(crate) telemetry: Telemetry,
    /// Such as `DPDK 22.11.11`.
    pub version: String,
    /// Its process, in the application's own PID namespace.
    pub pid: u32,
}

/// One of its ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The application's number of it.
    pub number: u16,
    /// Such as `0000:03:00.0` or `net_ring0`.
    pub name: String,
    /// Queues that receive.
    pub rx_queues: u16,
    /// Queues that send.
    pub tx_queues: u16,
    /// Bits a second, if the port is up and its driver says so.
    pub speed: Option<u64>,
    /// Hardware address, such as `6e:cf:47:03:7c:45`.
    pub mac: Option<[u8; 6]>,
}

const SOCKET: &str = "dpdk_telemetry.v2";

impl Application {
    /// The one that was started with this `--file-prefix` (`rte` by default), as root or as this user; or, with a `/` in it, the one
    /// with this telemetry socket.
    ///
    /// # Errors
    /// [`Error::NoApplication`] and those of the socket.
    pub fn find(prefix: &str) -> Result<Application, Error> {
        let looked = match prefix.contains('/') {
            true => vec![PathBuf::from(prefix)],
            false => places(prefix, env::var_os("XDG_RUNTIME_DIR"), Uid::current()),
        };
        let Some(path) = looked.iter().find(|path| path.exists()) else {
            return Err(Error::NoApplication { prefix: prefix.to_owned(), looked });
        };
        match Application::connect(path) {
            // A socket that is left of one that is gone.
            Err(Error::Socket(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                Err(Error::NoApplication { prefix: prefix.to_owned(), looked })
            }
            other => other,
        }
    }

    /// The one with this telemetry socket.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn connect(path: &Path) -> Result<Application, Error> {
        let (telemetry, hello) = Telemetry::connect(path)?;
        let version = hello["version"].as_str().unwrap_or("DPDK of an unknown version").to_owned();
        let pid = hello["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        Ok(Application { telemetry, version, pid })
    }

    /// The folder that an application of this prefix has made for itself, if there is one.
    pub fn folder(prefix: &str) -> Option<PathBuf> {
        let looked = places(prefix, env::var_os("XDG_RUNTIME_DIR"), Uid::current());
        let mut folders = looked.iter().filter_map(|socket| socket.parent());
        folders.find(|folder| folder.exists()).map(Path::to_owned)
    }

    /// Its process, as this one sees it; none in another PID namespace.
    pub fn process(&self) -> Option<i32> {
        self.telemetry.process()
    }

    /// Whether a thread of an application of this name, which waits in this system call, is the one that waits for clients of the
    /// telemetry socket: it holds nothing meanwhile, and moves no packets.
    pub fn is_idle_thread(name: &str, call: i64) -> bool {
        // `telemetry-v2`, or, from 23.11 on, `dpdk-telemet-v2`.
        name.contains("telem") && [nix::libc::SYS_accept, nix::libc::SYS_accept4].contains(&call)
    }

    /// What the plugin says of itself.
    ///
    /// # Errors
    /// [`Error::NoPlugin`] and those of the socket.
    pub fn plugin(&self) -> Result<String, Error> {
        self.words("/weir/info")
    }

    /// Its ports.
    ///
    /// # Errors
    /// Those of the socket, and answers that are none.
    pub fn ports(&self) -> Result<Vec<Port>, Error> {
        let list = self.telemetry.ask("/ethdev/list")?;
        let Some(numbers) = list.as_array() else {
            return Err(Error::Answer { command: "/ethdev/list".to_owned(), answer: list.to_string() });
        };
        let numbers =
            numbers.iter().filter_map(Value::as_u64).filter_map(|number| u16::try_from(number).ok());
        numbers.take(PORTS_MAX).map(|number| self.port(number)).collect()
    }

    /// An answer of the plugin's; it begins with `error: ` where it refuses.
    pub(crate) fn words(&self, command: &str) -> Result<String, Error> {
        match self.telemetry.ask(command)? {
            Value::String(words) => match words.strip_prefix("error: ") {
                Some(refusal) => Err(Error::Refused(refusal.to_owned())),
                None => Ok(words),
            },
            // That is how DPDK answers a command that it does not know.
            Value::Null => Err(Error::NoPlugin),
            other => Err(Error::Answer { command: command.to_owned(), answer: other.to_string() }),
        }
    }

    fn port(&self, number: u16) -> Result<Port, Error> {
        let command = format!("/ethdev/info,{number}");
        let info = self.telemetry.ask(&command)?;
        // Before it is configured, a port says how many queues it could have.
        let is_configured = info["dev_configured"].as_u64() != Some(0);
        let queues = |name: &str| {
            let count = info[name].as_u64().and_then(|count| u16::try_from(count).ok());
            count.map(|count| if is_configured { count } else { 0 })
        };
        let (Some(name), Some(rx_queues), Some(tx_queues)) =
            (info["name"].as_str(), queues("nb_rx_queues"), queues("nb_tx_queues"))
        else {
            return Err(Error::Answer { command, answer: info.to_string() });
        };
        let link = self.telemetry.ask(&format!("/ethdev/link_status,{number}"))?;
        Ok(Port {
            number,
            name: name.to_owned(),
            rx_queues,
            tx_queues,
            speed: speed(&link),
            mac: info["mac_addr"].as_str().and_then(mac),
        })
    }
}

/// Where an application of this prefix has its socket: root's, the user's, and where EAL puts it without a runtime directory.
fn places(prefix: &str, runtime: Option<OsString>, user: Uid) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/var/run/dpdk")];
    if !user.is_root() {
        folders.extend(runtime.map(|runtime| PathBuf::from(runtime).join("dpdk")));
        folders.push(PathBuf::from("/tmp/dpdk"));
    }
    folders.into_iter().map(|folder| folder.join(prefix).join(SOCKET)).collect()
}

/// DPDK says Mbit/s, and all ones for a speed that it does not know.
fn speed(link: &Value) -> Option<u64> {
    let speed = link["speed"].as_u64().filter(|speed| *speed > 0 && *speed < u64::from(u32::MAX))?;
    Some(speed * 1_000_000)
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sockets_are_looked_for_where_eal_makes_them() {
        let of = |user| places("fwd", Some("/run/user/7".into()), Uid::from_raw(user));
        assert_eq!(of(0), [Path::new("/var/run/dpdk/fwd/dpdk_telemetry.v2")]);
        assert_eq!(of(7)[1], Path::new("/run/user/7/dpdk/fwd/dpdk_telemetry.v2"));
    }

    #[test]
    fn a_speed_that_is_not_known_is_none() {
        assert_eq!(speed(&json!({ "status": "UP", "speed": 10_000 })), Some(10_000_000_000));
        assert_eq!(speed(&json!({ "status": "UP", "speed": 4_294_967_295u64 })), None);
        assert_eq!(speed(&json!({ "status": "DOWN" })), None);
    }

    #[test]
    fn an_address_has_six_bytes() {
        assert_eq!(mac("6E:CF:47:03:7C:45"), Some([0x6e, 0xcf, 0x47, 3, 0x7c, 0x45]));
        assert_eq!((mac("6E:CF:47:03:7C"), mac("x:1:2:3:4:5")), (None, None));
    }
}
