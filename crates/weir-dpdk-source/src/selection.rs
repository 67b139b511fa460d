//! `PREFIX[:PORT,…]`: which application, and which of its ports.

use crate::application::Port;
use crate::error::Error;

/// See above. Without ports, all of them.
///
/// ```
/// use weir_dpdk_source::Selection;
///
/// let selection = Selection::of("rte:0,net_ring1");
/// assert_eq!((selection.prefix.as_str(), selection.ports.len()), ("rte", 2));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// EAL's `--file-prefix`; `rte` where an application was given none.
    pub prefix: String,
    /// Numbers or names of ports.
    pub ports: Vec<String>,
}

impl Selection {
    /// Every text is one. A name of a port may have colons in it (`0000:03:00.0`), a prefix has none.
    pub fn of(text: &str) -> Selection {
        let (prefix, ports) = text.split_once(':').unwrap_or((text, ""));
        let ports = ports.split(',').filter(|port| !port.is_empty()).map(str::to_owned).collect();
        let prefix = if prefix.is_empty() { "rte" } else { prefix };
        Selection { prefix: prefix.to_owned(), ports }
    }

    /// Those that are meant, in the application's order, each once.
    ///
    /// # Errors
    /// [`Error::NoPort`]
    pub fn choose(&self, all: Vec<Port>) -> Result<Vec<Port>, Error> {
        let is = |port: &Port, word: &String| *word == port.name || word.parse() == Ok(port.number);
        if let Some(word) = self.ports.iter().find(|word| !all.iter().any(|port| is(port, word))) {
            let has: Vec<String> =
                all.iter().map(|port| format!("{} ({})", port.number, port.name)).collect();
            let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            return Err(Error::NoPort { port: word.clone(), has });
        }
        let is_meant = |port: &Port| self.ports.is_empty() || self.ports.iter().any(|word| is(port, word));
        Ok(all.into_iter().filter(is_meant).collect())
    }
}
