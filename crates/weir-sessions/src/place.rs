//! Where a user's daemon is found: a socket, and the files beside it.
//!
//! In: what the user said (`--socket`, WEIR_SOCKET), else `$XDG_RUNTIME_DIR/weir/record.sock`, for root `/run/weir/record.sock`, and where a
//! user has no such folder `/tmp/weir-UID/record.sock`. Out: paths. The folder is of this user and of mode 0700, or nothing is done in it:
//! who can reach the socket is who may use it.
//!
//! | beside `record.sock` | is |
//! |---|---|
//! | `record.sock.lock` | locked by the daemon as long as it lives; holds its process id |
//! | `record.sock.log` | what the daemon says |
//! | `record.sock.state` | its sessions, for the one that comes after it |
//! | `record.sock.NAME.N.counts` | what recording N of session NAME has recorded so far |
//! | `record.sock.NAME.N.log` | what it said |

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use weir_trace::private;

use crate::Error;
use crate::limits;

/// The environment's word for the socket.
pub const SOCKET_VARIABLE: &str = "WEIR_SOCKET";

/// Where the daemon of a user is.
#[derive(Clone, Debug)]
pub struct Place {
    /// What it listens on.
    pub socket: PathBuf,
    /// The weir that is started as a daemon, and to record. Asked for each time: a daemon lives for days, and a file may be moved.
    pub program: fn() -> PathBuf,
}

/// Held while the daemon lives.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held, not read")] Flock<File>);

impl Place {
    /// Where it is, by what was given; nothing is looked at. `program` as in [`Place`].
    pub fn find(given: Option<&Path>, program: fn() -> PathBuf) -> Result<Place, Error> {
        let named =
            given.map(Path::to_owned).or_else(|| std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from));
        let socket = match named {
            Some(path) => std::path::absolute(&path)
                .map_err(|error| Error::Refused(anyhow!(error).context("--socket")))?,
            None => usual(),
        };
        let (length, most) = (socket.as_os_str().len(), limits::SOCKET_BYTES - 1);
        if length > most {
            let shown = socket.display();
            return Err(Error::Refused(anyhow!(
                "the path of the socket has {length} bytes, the limit is {most}: {shown}; name another with --socket"
            )));
        }
        match (socket.file_name(), socket.parent()) {
            (Some(_), Some(_)) => Ok(Place { socket, program }),
            _ => Err(Error::Refused(anyhow!("--socket {}: it names no file", socket.display()))),
        }
    }

    /// Makes the folder, if it is not there.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let folder = self.folder();
        let made = DirBuilder::new().mode(0o700).create(folder);
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                let what = format!("cannot make {}", folder.display());
                Err(Error::Unavailable(anyhow!(error).context(what)))
            }
            _ => self.check(),
        }
    }

    /// That the folder is this user's alone; nothing is said of one that is not there.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let folder = self.folder();
        let shown = folder.display();
        let about = match fs::symlink_metadata(folder) {
            Ok(about) => about,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::Unavailable(anyhow!(error).context(format!("{shown}")))),
        };
        let (own, owner, mode) = (geteuid().as_raw(), about.uid(), about.mode() & 0o777);
        let refused =
            |what: String| Err(Error::Refused(anyhow!("{shown}, the folder of the socket, {what}")));
        match () {
            () if !about.is_dir() => refused("is no folder".to_owned()),
            () if owner != own => refused(format!("is of user {owner}, this is user {own}")),
            () if mode & 0o077 != 0 => {
                refused(format!("is open to others (mode {mode:o}): it must have mode 700"))
            }
            () => Ok(()),
        }
    }

    fn folder(&self) -> &Path {
        // SANITY: looked at when it was found.
        self.socket.parent().expect("a socket in a folder")
    }

    /// `record.sock` with something behind it.
    fn beside(&self, end: &str) -> PathBuf {
        let mut path = self.socket.clone().into_os_string();
        path.push(end);
        path.into()
    }

    /// The file that it keeps its sessions in.
    pub fn state(&self) -> PathBuf {
        self.beside(".state")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.beside(".log")
    }

    /// `session` is a name that was checked.
    pub(crate) fn counts(&self, session: &str, number: u64) -> PathBuf {
        self.beside(&format!(".{session}.{number}.counts"))
    }

    pub(crate) fn log_of(&self, session: &str, number: u64) -> PathBuf {
        self.beside(&format!(".{session}.{number}.log"))
    }

    /// Removes what stands beside the socket of one recording.
    pub(crate) fn forget(&self, session: &str, number: u64) {
        for path in [self.counts(session, number), self.log_of(session, number)] {
            let _ = fs::remove_file(path);
        }
    }

    /// The daemon's, which it has while it lives; none where another has it.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Error> {
        let path = self.beside(".lock");
        let failed =
            |error: std::io::Error| Error::Unavailable(anyhow!(error).context(path.display().to_string()));
        let options = private::options().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(failed)?;
        match Flock::lock(file.try_clone().map_err(failed)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                file.set_len(0).map_err(failed)?;
                writeln!(file, "{}", std::process::id()).map_err(failed)?;
                Ok(Some(Lock(lock)))
            }
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(failed(errno.into())),
        }
    }

    /// Where what the daemon says goes.
    pub(crate) fn open_log(&self) -> Result<File, Error> {
        let path = self.log();
        let file = private::options().append(true).create(true).open(&path).and_then(|file| {
            if file.metadata()?.len() > limits::LOG_BYTES {
                file.set_len(0)?;
            }
            Ok(file)
        });
        file.with_context(|| format!("cannot write {}", path.display())).map_err(Error::Unavailable)
    }
}

/// Writes a file as a whole: who reads it sees the old or the new.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    let mut file = private::options().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

/// A file that is not too large; none if it is not there.
pub(crate) fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(limits::FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// What stands in a log from `from` on, the last of it where that is much; and how far it goes.
pub(crate) fn said(path: &Path, from: u64) -> (String, u64) {
    let read = || -> std::io::Result<(Vec<u8>, u64)> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(limits::SAID_BYTES))))?;
        file.take(limits::SAID_BYTES).read_to_end(&mut bytes)?;
        Ok((bytes, end))
    };
    let (bytes, end) = read().unwrap_or_default();
    (String::from_utf8_lossy(&bytes).into_owned(), end)
}

fn usual() -> PathBuf {
    let uid = geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match (uid.is_root(), runtime) {
        (true, _) => PathBuf::from("/run/weir"),
        (false, Some(runtime)) => runtime.join("weir"),
        (false, None) => PathBuf::from(format!("/tmp/weir-{uid}")),
    };
    folder.join("record.sock")
}
