//! The `config` block, and what is set outside of the script → settings.

use weir_event::StackMode;
use weir_ir::MissingProbes;
use weir_source::Diagnostic;

use crate::Options;
use crate::ast::{Config, ConfigEntry, ExprKind};
use crate::builtin::SETTINGS;
use crate::limits;
use weir_source::nearest;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub max_strlen: u32,
    pub max_map_keys: u32,
    pub max_probes: u64,
    pub max_cat_bytes: u32,
    pub prints_maps: bool,
    pub demangles: bool,
    pub stack_mode: StackMode,
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
        max_cat_bytes: 10_240,
        prints_maps: true,
        demangles: true,
        stack_mode: StackMode::Bpftrace,
        max_loop_iterations: 0,
        missing_probes: MissingProbes::Error,
    };
    for entry in config.iter().flat_map(|config| &config.entries) {
        if let Err(diagnostic) = apply(entry, &mut settings) {
            diagnostics.push(diagnostic);
        }
    }
    for (name, value) in &options.settings {
        // Their faults were reported where they come from (`fault_of`).
        let _ = set(name, &Given::of_text(value), &mut settings);
    }
    settings
}

/// What is wrong with a setting that is given outside of a script, if anything is.
pub fn fault_of(name: &str, value: &str) -> Option<String> {
    let mut settings = settings(None, &Options::default(), &mut Vec::new());
    match set(name, &Given::of_text(value), &mut settings) {
        None => Some(format!("there is no setting `{name}`")),
        Some(Ok(())) => None,
        Some(Err(wanted)) => Some(format!("`{name}` must be {}, not {value:?}", wanted.text)),
    }
}

/// What a setting is set to.
enum Given<'a> {
    Number(u64),
    Word(&'a str),
    Other,
}

impl Given<'_> {
    fn of_text(text: &str) -> Given<'_> {
        text.parse().map_or(Given::Word(text), Given::Number)
    }
}

fn apply(entry: &ConfigEntry, settings: &mut Settings) -> Result<(), Diagnostic> {
    let given = match &entry.value.kind {
        ExprKind::Invalid => return Ok(()),
        ExprKind::Int { magnitude, negative: false } => Given::Number(*magnitude),
        ExprKind::Name(word) | ExprKind::Str(word) => Given::Word(word),
        _ => Given::Other,
    };
    let name = entry.key.text.as_str();
    match set(name, &given, settings) {
        None => Err(unknown(entry, name)),
        Some(Ok(())) => Ok(()),
        Some(Err(Wanted { text, example })) => {
            let message = format!("`{name}` must be {text}");
            Err(Diagnostic::error(entry.value.span, message)
                .with_hint(format!("write `{name} = {example};`")))
        }
    }
}

/// What a setting takes, for messages.
struct Wanted {
    text: String,
    example: String,
}

/// None if there is no such setting; what it wants if it is set to something else.
fn set(name: &str, given: &Given<'_>, settings: &mut Settings) -> Option<Result<(), Wanted>> {
    // As variables of the environment have it, too, and by the names of earlier versions.
    let name = name.to_lowercase();
    let name = match name.strip_prefix("bpftrace_").unwrap_or(&name) {
        "strlen" => "max_strlen",
        "map_keys_max" => "max_map_keys",
        "cat_bytes_max" => "max_cat_bytes",
        other => other,
    };
    let number = |(least, most): (u64, u64)| match *given {
        Given::Number(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(Wanted { text: format!("a number from {least} to {most}"), example: most.to_string() }),
    };
    Some(match name {
        "max_strlen" => number(limits::MAX_STRLEN_RANGE).map(|n| settings.max_strlen = n as u32),
        "max_map_keys" => number(limits::MAX_MAP_KEYS_RANGE).map(|n| settings.max_map_keys = n as u32),
        "max_cat_bytes" => number(limits::MAX_CAT_BYTES_RANGE).map(|n| settings.max_cat_bytes = n as u32),
        "max_probes" => number(limits::MAX_PROBES_RANGE).map(|n| settings.max_probes = n),
        "max_loop_iterations" => {
            number(limits::MAX_LOOP_ITERATIONS_RANGE).map(|n| settings.max_loop_iterations = n as u32)
        }
        "print_maps_on_exit" => truth(given).map(|truth| settings.prints_maps = truth),
        "cpp_demangle" => truth(given).map(|truth| settings.demangles = truth),
        "no_cpp_demangle" => truth(given).map(|truth| settings.demangles = !truth),
        "stack_mode" => stack_mode(given).map(|mode| settings.stack_mode = mode),
        name if WITHOUT_MEANING.contains(&name) => match given {
            Given::Other => Err(Wanted { text: "a number or a word".to_owned(), example: "1".to_owned() }),
            _ => Ok(()),
        },
        "missing_probes" => missing(given).map(|found| settings.missing_probes = found),
        _ => return None,
    })
}

/// Settings of bpftrace's that are about LLVM, the kernel's verifier, its ring or its way to look up symbols: weir has nothing that they set.
pub(crate) const WITHOUT_MEANING: [&str; 20] = [
    "cache_user_symbols",
    "lazy_symbolication",
    "license",
    "log_size",
    "max_ast_nodes",
    "max_bpf_progs",
    "max_type_res_iterations",
    "on_stack_limit",
    "perf_rb_pages",
    "show_debug_info",
    "str_trunc_trailer",
    "symbol_source",
    "unstable_addr",
    "unstable_import_statement",
    "unstable_import",
    "unstable_macro",
    "unstable_map_decl",
    "unstable_tseries",
    "unstable_typeinfo",
    "use_blazesym",
];

fn truth(given: &Given<'_>) -> Result<bool, Wanted> {
    match given {
        Given::Number(1) | Given::Word("true") => Ok(true),
        Given::Number(0) | Given::Word("false") => Ok(false),
        _ => Err(Wanted { text: "`true` or `false`".to_owned(), example: "false".to_owned() }),
    }
}

fn stack_mode(given: &Given<'_>) -> Result<StackMode, Wanted> {
    let found = match given {
        Given::Word(word) => StackMode::NAMES.iter().find(|(_, name)| name == word),
        _ => None,
    };
    let wanted = || Wanted { text: "`bpftrace`, `perf` or `raw`".to_owned(), example: "perf".to_owned() };
    found.map(|(mode, _)| *mode).ok_or_else(wanted)
}

fn missing(given: &Given<'_>) -> Result<MissingProbes, Wanted> {
    let found = match given {
        Given::Word(word) => MissingProbes::NAMES.iter().find(|(_, name)| name == word),
        _ => None,
    };
    let wanted = || Wanted { text: "`error`, `warn` or `ignore`".to_owned(), example: "\"warn\"".to_owned() };
    found.map(|(found, _)| *found).ok_or_else(wanted)
}

fn unknown(entry: &ConfigEntry, name: &str) -> Diagnostic {
    let names = || SETTINGS.iter().map(|(name, _)| *name);
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("settings are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Diagnostic::error(entry.key.span, format!("unknown setting `{name}`")).with_hint(hint)
}
