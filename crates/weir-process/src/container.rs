//! Containers: which a cgroup belongs to, and which one an id or a name means.
//!
//! In: paths of cgroups, the state files of container runtimes. Out: [`Container`]s. A runtime shows itself by the names it
//! gives to cgroups:
//!
//! - docker, podman, cri-o, containerd and Kubernetes: 64 hexadecimal digits, alone (`/docker/ID`, `/kubepods/…/ID`) or at the end
//!   of a name (`docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, `…:cri-containerd:ID`);
//! - LXC: `lxc.payload.NAME`, `lxc/NAME`;
//! - systemd-nspawn: `machine-NAME.scope`, `systemd-nspawn@NAME.service`.
//!
//! Processes that look after a container (`conmon`, `lxc.monitor`) are not in it. Names of those with ids stand in files of
//! their runtimes, which often root alone may read: what could not be read is told with the error. Deliberately not done:
//! asking a runtime through its socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Hexadecimal digits of a whole id, and of the shortest beginning of one that is taken.
const ID_DIGITS: usize = 64;
const PREFIX_DIGITS_MIN: usize = 6;

/// Digits of an id as runtimes show them.
const SHOWN_DIGITS: usize = 12;

/// Containers that an error names.
const NAMED_MAX: usize = 8;

/// Bytes of one state file that are read.
const STATE_BYTES_MAX: u64 = 16 << 20;

/// A container by what its cgroup calls it: a whole id, or a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Container {
    /// A whole id, or a name.
    pub name: String,
}

impl Container {
    fn has_id(&self) -> bool {
        is_id(&self.name)
    }

    /// As its runtime shows it.
    pub fn short(&self) -> &str {
        if self.has_id() { &self.name[..SHOWN_DIGITS] } else { &self.name }
    }

    /// A cgroup of this path is one of the container, or below one.
    pub fn holds(&self, path: &str) -> bool {
        of_path(path).any(|container| container == *self)
    }
}

/// The containers that a cgroup is in, the outermost first.
pub fn of_path(path: &str) -> impl Iterator<Item = Container> {
    let parts = path.split('/').scan("", |before, part| {
        let pair = (*before, part);
        *before = part;
        Some(pair)
    });
    parts.filter_map(|(before, part)| of_part(before, part))
}

/// The container that the part of a path names, behind `before`.
fn of_part(before: &str, part: &str) -> Option<Container> {
    let name = unescape(part.strip_suffix(".scope").or(part.strip_suffix(".service")).unwrap_or(part));
    let start = name.len().saturating_sub(ID_DIGITS);
    if let (Some(owner), Some(id)) = (name.get(..start), name.get(start..))
        && is_id(id)
    {
        let is_owner = owner.is_empty() || owner.ends_with(['-', ':']);
        return (is_owner && !owner.contains("conmon")).then(|| Container { name: id.to_owned() });
    }
    let lxc = name.strip_prefix("lxc.payload.").or_else(|| is_lxc(before).then_some(&*name));
    let machine = || match part.strip_suffix(".scope") {
        Some(_) => name.strip_prefix("machine-"),
        None => name.strip_prefix("systemd-nspawn@"),
    };
    let name = lxc.or_else(machine)?;
    (!name.is_empty()).then(|| Container { name: name.to_owned() })
}

fn is_lxc(part: &str) -> bool {
    matches!(part, "lxc" | "lxc.payload")
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// systemd writes a character that a unit's name may not have as `\x` and two digits (systemd.unit(5)).
fn unescape(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend(["\\x", part].concat().as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What the state files of runtimes say.
#[derive(Debug, Default)]
pub struct Named {
    /// Ids by name: several runtimes may use one.
    ids: BTreeMap<String, BTreeSet<String>>,
    /// What could not be read, and why.
    unread: Vec<String>,
}

/// Reads the state files. `root`: where `/var` and `/run` are; `home`: where a user's own podman keeps its files.
pub fn named(root: &Path, home: Option<&Path>) -> Named {
    let mut named = Named::default();
    named.docker(&root.join("var/lib/docker/containers"));
    let podman =
        [Some(root.join("var/lib/containers")), home.map(|home| home.join(".local/share/containers"))];
    for folder in podman.into_iter().flatten() {
        for storage in ["overlay", "vfs", "btrfs"] {
            let folder = folder.join("storage").join(format!("{storage}-containers"));
            named.podman(&folder.join("containers.json"));
            named.podman(&folder.join("volatile-containers.json"));
        }
    }
    named.nerdctl(&root.join("var/lib/nerdctl"));
    named.kubernetes(&root.join("run/containerd/io.containerd.runtime.v2.task/k8s.io"));
    named
}

impl Named {
    /// `ID/config.v2.json` with `"Name": "/NAME"`.
    fn docker(&mut self, folder: &Path) {
        for path in self.folder(folder) {
            let Some(state) = self.json(&path.join("config.v2.json")) else { continue };
            if let (Some(id), Some(name)) = (state["ID"].as_str(), state["Name"].as_str()) {
                self.add(name.trim_start_matches('/'), id);
            }
        }
    }

    /// A list of `{"id", "names": […]}`.
    fn podman(&mut self, path: &Path) {
        let state = self.json(path);
        for container in state.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let names = container["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(id) = container["id"].as_str() {
                names.for_each(|name| self.add(name, id));
            }
        }
    }

    /// `HASH/names/NAMESPACE/NAME`, a file that holds the id.
    fn nerdctl(&mut self, folder: &Path) {
        let stores = self.folder(folder);
        let spaces: Vec<PathBuf> =
            stores.iter().flat_map(|store| self.folder(&store.join("names"))).collect();
        let files: Vec<PathBuf> = spaces.iter().flat_map(|space| self.folder(space)).collect();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(id) = self.text(&file) {
                self.add(&name, id.trim());
            }
        }
    }

    /// `ID/config.json` with annotations that say which container of which pod it is.
    fn kubernetes(&mut self, folder: &Path) {
        for path in self.folder(folder) {
            let Some(state) = self.json(&path.join("config.json")) else { continue };
            let id = path.file_name().unwrap_or_default().to_string_lossy();
            let annotation = |name: &str| state["annotations"][format!("io.kubernetes.cri.{name}")].as_str();
            if let Some(name) = annotation("container-name") {
                self.add(name, &id);
                if let Some(pod) = annotation("sandbox-name") {
                    self.add(&format!("{pod}/{name}"), &id);
                }
            }
        }
    }

    fn add(&mut self, name: &str, id: &str) {
        if is_id(id) && !name.is_empty() {
            self.ids.entry(name.to_owned()).or_default().insert(id.to_owned());
        }
    }

    fn folder(&mut self, path: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(path);
        let entries = entries.map(|entries| entries.flatten().map(|entry| entry.path()).collect());
        self.read(path, entries).unwrap_or_default()
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(STATE_BYTES_MAX).read_to_string(&mut text));
        self.read(path, read).map(|_| text)
    }

    fn json(&mut self, path: &Path) -> Option<Value> {
        let value = serde_json::from_str(&self.text(path)?);
        self.read(path, value.map_err(io::Error::from))
    }

    /// A runtime that is not there has no files.
    fn read<T>(&mut self, path: &Path, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.unread.push(format!("{}: {error}", path.display()));
                }
                None
            }
        }
    }
}

/// The container that `given` means: the beginning of an id, or a name. `groups`: the paths of all cgroups. It may be one
/// that does not run now, if a runtime knows it by this name. The error says why it is none.
pub fn find(given: &str, groups: &BTreeSet<String>, named: &Named) -> Result<Container, String> {
    let running: BTreeSet<Container> = groups.iter().flat_map(|path| of_path(path)).collect();
    let is_hex = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_prefix = is_hex && (PREFIX_DIGITS_MIN..=ID_DIGITS).contains(&given.len());
    let lower = given.to_ascii_lowercase();
    let by_id = running.iter().filter(|c| is_prefix && c.has_id() && c.name.starts_with(&lower));
    let by_group = running.iter().filter(|c| !c.has_id() && c.name == given);
    let mut found: BTreeSet<Container> = by_id.chain(by_group).cloned().collect();
    if found.is_empty() {
        let ids = named.ids.get(given).into_iter().flatten();
        found = ids.map(|id| Container { name: id.clone() }).collect();
        // Of a name that was used again, the one that runs.
        if found.iter().any(|container| running.contains(container)) {
            found.retain(|container| running.contains(container));
        }
    }
    if found.len() > 1 {
        let found = list(found.iter().map(|container| container.short().to_owned()));
        return Err(format!("several containers are meant by {given}: {found}; give more of the id"));
    }
    found.pop_first().ok_or_else(|| not_found(given, is_hex, &running, named))
}

fn not_found(given: &str, is_hex: bool, running: &BTreeSet<Container>, named: &Named) -> String {
    let name_of = |container: &Container| {
        let name = named.ids.iter().find(|(_, ids)| ids.contains(&container.name));
        name.map_or_else(String::new, |(name, _)| format!(" ({name})"))
    };
    let mut message = format!("there is no container {given}");
    if is_hex && given.len() < PREFIX_DIGITS_MIN {
        message += &format!("; of an id, {PREFIX_DIGITS_MIN} digits or more are needed");
    }
    match running.is_empty() {
        true => message += "; no container runs on this machine, as far as its cgroups show",
        false => {
            let running = running.iter().map(|c| format!("{}{}", c.short(), name_of(c)));
            message += &format!("; there are {}", list(running));
        }
    }
    if !named.unread.is_empty() {
        message += &format!("; names may be missing ({})", list(named.unread.iter().cloned()));
    }
    message
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(NAMED_MAX);
    let shown = items[..items.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "0123456fffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

    #[track_caller]
    fn check_path(path: &str, want: &[&str]) {
        let path = path.replace("ID", ID);
        let got: Vec<String> = of_path(&path).map(|container| container.name).collect();
        let want: Vec<String> = want.iter().map(|name| name.replace("ID", ID)).collect();
        assert_eq!(got, want, "{path}");
    }

    #[test]
    fn runtimes_are_known_by_their_cgroups() {
        check_path("/docker/ID", &["ID"]);
        check_path("/system.slice/docker-ID.scope/init", &["ID"]);
        check_path("/machine.slice/libpod-ID.scope/container", &["ID"]);
        check_path("/user.slice/user-1.slice/user@1.service/user.slice/libpod-ID.scope", &["ID"]);
        check_path("/kubepods/burstable/pod5d3a/ID", &["ID"]);
        check_path("/kubepods.slice/kubepods-pod5d.slice/cri-containerd-ID.scope", &["ID"]);
        check_path("/kubepods.slice/kubepods-pod5d.slice/crio-ID.scope", &["ID"]);
        check_path("/system.slice/containerd.service/kubepods-pod5d.slice:cri-containerd:ID", &["ID"]);
        check_path("/lxc.payload.web/system.slice", &["web"]);
        check_path("/lxc.payload/web", &["web"]);
        check_path("/lxc/web/docker/ID", &["web", "ID"]);
        check_path(r"/machine.slice/machine-my\x2dweb.scope", &["my-web"]);
        check_path("/machine.slice/systemd-nspawn@web.service/payload", &["web"]);
    }

    #[test]
    fn other_groups_are_no_containers() {
        check_path("/", &[]);
        check_path("/system.slice/nginx.service", &[]);
        check_path("/docker", &[]);
        check_path("/machine.slice/libpod-conmon-ID.scope", &[]);
        check_path("/kubepods.slice/crio-conmon-ID.scope", &[]);
        check_path("/lxc.monitor.web", &[]);
        check_path("/machine.slice/machine-.scope", &[]);
        check_path("/docker/IDff", &[]);
        check_path("/é/éééééééééééééééééééééééééééééééééé", &[]);
    }

    fn groups(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| path.replace("OTHER", OTHER).replace("ID", ID)).collect()
    }

    fn state(name: &str, files: &[(&str, String)]) -> Named {
        let root = std::env::temp_dir().join(format!("weir-state-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let named = named(&root, Some(&root.join("home")));
        fs::remove_dir_all(&root).unwrap();
        named
    }

    #[test]
    fn ids_are_given_by_their_beginning() {
        let (groups, named) =
            (groups(&["/", "/docker/ID", "/docker/OTHER", "/lxc/abcdef"]), Named::default());
        let found = |given: &str| find(given, &groups, &named).map(|container| container.name);
        assert_eq!(found("01234567"), Ok(ID.into()));
        assert_eq!(found(&ID.to_uppercase()), Ok(ID.into()));
        assert_eq!(found("0123456f"), Ok(OTHER.into()));
        assert_eq!(found("abcdef"), Ok("abcdef".into()));
        let several =
            "several containers are meant by 012345: 0123456789ab, 0123456fffff; give more of the id";
        assert_eq!(found("012345"), Err(several.into()));
        let short = found("01234").unwrap_err();
        assert!(short.contains("of an id, 6 digits or more are needed; there are 0123456789ab"), "{short}");
        assert!(
            find("web", &BTreeSet::new(), &named).unwrap_err().contains("no container runs on this machine")
        );
    }

    #[test]
    fn names_come_from_the_files_of_runtimes() {
        let named = state(
            "names",
            &[
                (&format!("var/lib/docker/containers/{ID}/config.v2.json"), format!(r#"{{"ID": "{ID}", "Name": "/web"}}"#)),
                (
                    "home/.local/share/containers/storage/overlay-containers/containers.json",
                    format!(r#"[{{"id": "{OTHER}", "names": ["db", "both"]}}]"#),
                ),
                ("var/lib/nerdctl/1935db59/names/default/cache", ID.into()),
                ("var/lib/nerdctl/1935db59/names/default/both", ID.into()),
                (
                    &format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{OTHER}/config.json"),
                    r#"{"annotations": {"io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.sandbox-name": "pod-1"}}"#.into(),
                ),
            ],
        );
        let none = BTreeSet::new();
        let found = |given: &str| find(given, &none, &named).map(|container| container.name);
        assert_eq!(found("web"), Ok(ID.into()));
        assert_eq!(found("db"), Ok(OTHER.into()));
        assert_eq!(found("cache"), Ok(ID.into()));
        assert_eq!(found("app"), Ok(OTHER.into()));
        assert_eq!(found("pod-1/app"), Ok(OTHER.into()));
        assert!(found("both").unwrap_err().starts_with("several containers are meant by both"));
        // One of the two runs.
        assert_eq!(find("both", &groups(&["/docker/ID"]), &named).unwrap().name, ID);
        let error = find("webb", &groups(&["/docker/ID"]), &named).unwrap_err();
        assert_eq!(
            error,
            "there is no container webb; there are 0123456789ab (cache)".replace("cache", "both")
        );
    }

    #[test]
    fn state_that_cannot_be_read_is_told() {
        let named = state("spoiled", &[("var/lib/docker/containers/x/config.v2.json", "{".into())]);
        let error = find("web", &BTreeSet::new(), &named).unwrap_err();
        assert!(error.contains("names may be missing (") && error.contains("config.v2.json: "), "{error}");
    }
}
