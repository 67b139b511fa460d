//! The `config` block → settings.

use weir_ir::MissingProbes;
use weir_source::Diagnostic;

use crate::Options;
use crate::ast::{Config, ConfigEntry, ExprKind};
use crate::builtin::SETTINGS;
use crate::limits;
use crate::unsupported::{self, Kind};
use weir_source::nearest;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub max_strlen: u32,
    pub max_map_keys: u32,
    pub max_probes: u64,
    /// 0: not set.
    pub max_loop_iterations: u32,
    pub missing_probes: MissingProbes,
}

/// The options with the block's settings over them. Faults are added to `diagnostics`.
pub(crate) fn settings(
    config: Option<&Config>,
    options: &Options,
    diagnostics: &mut Vec<Diagnostic>,
) -> Settings {
    let in_range = |value: u32, (least, most): (u64, u64)| u64::from(value).clamp(least, most) as u32;
    let mut settings = Settings {
        max_strlen: in_range(options.max_strlen, limits::MAX_STRLEN_RANGE),
        max_map_keys: in_range(options.max_map_keys, limits::MAX_MAP_KEYS_RANGE),
        max_probes: limits::MAX_PROBES_DEFAULT,
        max_loop_iterations: 0,
        missing_probes: MissingProbes::Error,
    };
    for entry in config.iter().flat_map(|config| &config.entries) {
        if let Err(diagnostic) = apply(entry, &mut settings) {
            diagnostics.push(diagnostic);
        }
    }
    settings
}

fn apply(entry: &ConfigEntry, settings: &mut Settings) -> Result<(), Diagnostic> {
    if entry.value.kind == ExprKind::Invalid {
        return Ok(());
    }
    match entry.key.text.as_str() {
        "max_strlen" => settings.max_strlen = number(entry, limits::MAX_STRLEN_RANGE)? as u32,
        "max_map_keys" => settings.max_map_keys = number(entry, limits::MAX_MAP_KEYS_RANGE)? as u32,
        "max_loop_iterations" => {
            settings.max_loop_iterations = number(entry, limits::MAX_LOOP_ITERATIONS_RANGE)? as u32;
        }
        "max_probes" => settings.max_probes = number(entry, limits::MAX_PROBES_RANGE)?,
        "missing_probes" => settings.missing_probes = missing(entry)?,
        other => return Err(unknown(entry, other)),
    }
    Ok(())
}

fn number(entry: &ConfigEntry, (least, most): (u64, u64)) -> Result<u64, Diagnostic> {
    match entry.value.kind {
        ExprKind::Int { magnitude, negative: false } if (least..=most).contains(&magnitude) => Ok(magnitude),
        _ => {
            let message = format!("`{}` must be a number from {least} to {most}", entry.key.text);
            Err(Diagnostic::error(entry.value.span, message)
                .with_hint(format!("write `{} = {most};`", entry.key.text)))
        }
    }
}

fn missing(entry: &ConfigEntry) -> Result<MissingProbes, Diagnostic> {
    let word = match &entry.value.kind {
        ExprKind::Name(word) | ExprKind::Str(word) => word.as_str(),
        _ => "",
    };
    match MissingProbes::NAMES.iter().find(|(_, name)| *name == word) {
        Some((found, _)) => Ok(*found),
        None => {
            let message = "`missing_probes` must be `error`, `warn` or `ignore`";
            Err(Diagnostic::error(entry.value.span, message).with_hint("write `missing_probes = \"warn\";`"))
        }
    }
}

fn unknown(entry: &ConfigEntry, name: &str) -> Diagnostic {
    if let Some(row) = unsupported::find(Kind::Setting, name) {
        return Diagnostic::error(entry.key.span, row.message()).with_hint(row.hint);
    }
    let names = || SETTINGS.iter().map(|(name, _)| *name);
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("settings are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Diagnostic::error(entry.key.span, format!("unknown setting `{name}`")).with_hint(hint)
}
