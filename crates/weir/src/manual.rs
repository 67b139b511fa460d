//! What other programs are told of the command line: completion scripts for shells, and manual pages.
//!
//! In: clap's table, which the parser reads too, so that no flag can be missing or out of date. Out: text, or one file a
//! page. A page has NAME, SYNOPSIS (with the names of values, which clap_mangen leaves out), DESCRIPTION, OPTIONS and what stands below the help text, whose lines are kept as they
//! are. Deliberately not done: installing anything, which the README says how to do.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Arg, ArgAction, Command, CommandFactory, Id};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::args::{self, Args, Shell};
use crate::failure::Failure;
use crate::print::print;

/// The name that programs are installed under.
const NAME: &str = "weir";

/// Of the version, and not of the day: the same program prints the same pages.
const DATE: &str = "2026-11-26";

/// Prints the script that makes `shell` complete weir's subcommands, flags and values.
pub(crate) fn completions(args: &args::Completions) -> Result<ExitCode, Failure> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(&Args::command()), NAME, &mut script);
    let script = String::from_utf8_lossy(&script);
    print(&match args.shell {
        Shell::Bash => script.into_owned() + PROBES_IN_BASH,
        Shell::Zsh => in_zsh(&script),
        Shell::Fish => script.into_owned() + PROBES_IN_FISH,
    })
}

/// Where attach points stand, they are completed by weir, which knows what there is in a file. Bash ends words at `:`, but not between quotes.
const PROBES_IN_BASH: &str = r#"
_weir_probes() {
    local line=${COMP_LINE:0:COMP_POINT} text
    local word="('[^']*|\"[^\"]*|[^[:space:]'\"]*)\$"
    if [[ $line =~ [[:space:]](-e|--event)[[:space:]=]+$word ]]; then
        text=${BASH_REMATCH[2]}
    elif [[ $line =~ ^[^[:space:]]+[[:space:]]+list[[:space:]]+(.*[[:space:]])?$word && ${BASH_REMATCH[2]} != -* ]]; then
        text=${BASH_REMATCH[2]}
    else
        _weir "$@"
        return
    fi
    local begun=
    [[ $text == [\'\"]* ]] || begun=${text%"${text##*:}"}
    mapfile -t COMPREPLY < <("$1" __complete "${text#[\'\"]}" 2> /dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$begun"}")
    compopt -o nospace 2> /dev/null
}
complete -F _weir_probes -o bashdefault -o default weir
"#;

const PROBES_IN_FISH: &str = r#"
function __weir_probes
    weir __complete (commandline -ct | string trim -l -c "'\"") 2> /dev/null
end
complete -c weir -n "__fish_seen_subcommand_from trace record" -s e -x -a "(__weir_probes)"
complete -c weir -n "__fish_seen_subcommand_from record" -l event -x -a "(__weir_probes)"
complete -c weir -n "__fish_seen_subcommand_from list" -x -a "(__weir_probes)"
"#;

const PROBES_IN_ZSH: &str = r#"
(( $+functions[_weir_probes] )) || _weir_probes() {
    local -a found
    found=(${(f)"$(weir __complete "${(Q)PREFIX}" 2> /dev/null)"})
    compadd -S '' -a found
}
"#;

/// Between the script's first line, which says what it is for, and its functions.
fn in_zsh(script: &str) -> String {
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    let takes_probes = |line: &str| {
        [":PROGRAM:_default'", ":EVENT:_default'"].iter().any(|end| line.contains(end))
            || line.contains("patterns -- ")
    };
    let line = |line: &str| match takes_probes(line) {
        true => line.replace(":_default'", ":_weir_probes'") + "\n",
        false => line.to_owned() + "\n",
    };
    format!("{first}\n{PROBES_IN_ZSH}{}", rest.lines().map(line).collect::<String>())
}

/// The table without what is hidden, which scripts for some shells would offer.
fn shown(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let is_shown =
        |id: &Id| command.get_arguments().any(|shown| shown.get_id() == id && !shown.is_hide_set());
    let groups = command.get_groups().filter(|group| group.get_args().all(is_shown));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let like = Command::new(command.get_name().to_owned());
    let like = match command.get_version() {
        Some(version) => like.version(version.to_owned()),
        None => like,
    };
    like.about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(arguments.cloned())
        .groups(groups.cloned())
        .subcommands(below.map(shown))
}

/// Prints the page of weir itself, or writes every page to a directory.
pub(crate) fn man(args: &args::ManPages) -> Result<ExitCode, Failure> {
    let pages = pages();
    match &args.output {
        Some(folder) => {
            write(folder, &pages).map_err(Failure::Refused)?;
            print(&format!("{} pages written to {}\n", pages.len(), folder.display()))
        }
        // SANITY: the command itself comes first.
        None => print(&pages[0].text),
    }
}

fn write(folder: &Path, pages: &[Page]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for page in pages {
        let path = folder.join(&page.file);
        fs::write(&path, &page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

struct Page {
    file: String,
    text: String,
}

/// The command's page, then one for each subcommand, in the order of the help.
fn pages() -> Vec<Page> {
    let mut command = Args::command();
    // Names of subcommands with those of their commands, and global flags everywhere.
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages);
    pages
}

fn add_pages(command: &Command, pages: &mut Vec<Page>) {
    let man = Man::new(command.clone());
    pages.push(Page { file: man.get_filename(), text: page(command, &man) });
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add_pages(below, pages);
    }
}

fn page(command: &Command, man: &Man) -> String {
    let name = command.get_display_name().unwrap_or(NAME);
    let title = format!(".TH {name} 1 \"{DATE}\" \"weir {}\" weir\n", env!("CARGO_PKG_VERSION"));
    let mut text = title.into_bytes();
    // SANITY: writing to memory does not fail.
    let mut render =
        |section: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| section(&mut text).expect("memory");
    render(&|out| man.render_name_section(out));
    render(&|out| synopsis(command).to_writer(out));
    render(&|out| man.render_description_section(out));
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        render(&|out| man.render_options_section(out));
    }
    if command.has_subcommands() {
        render(&|out| man.render_subcommands_section(out));
    }
    if let Some(below) = command.get_after_help() {
        render(&|out| below_help(&below.to_string()).to_writer(out));
    }
    // SANITY: clap's table is text, and roff escapes it in ASCII or leaves it as it is.
    let text = String::from_utf8(text).expect("text");
    // Breaks around a space that makes them anyway, of which typesetters warn.
    text.replace("\n.br\n\n.br\n", "\n.sp\n")
}

/// How it is written: what may be left out in brackets, of what stands between `<` and `>` one, and `...` behind what may be
/// repeated.
fn synopsis(command: &Command) -> Roff {
    let mut line = vec![bold(command.get_bin_name().unwrap_or(NAME))];
    let shown: Vec<&Arg> = command.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
    let required = command.get_groups().filter(|group| group.is_required_set());
    let groups: Vec<Vec<&Id>> = required.map(|group| group.get_args().collect()).collect();
    let is_alone = |argument: &&&Arg| !groups.iter().flatten().any(|member| *member == argument.get_id());
    let (values, options): (Vec<&Arg>, Vec<&Arg>) =
        shown.iter().filter(is_alone).partition(|argument| argument.is_positional());
    options.into_iter().for_each(|argument| add_argument(&mut line, argument));
    for group in &groups {
        line.push(roman(" <"));
        for (at, argument) in shown.iter().filter(|argument| group.contains(&argument.get_id())).enumerate() {
            line.extend((at > 0).then(|| roman("|")));
            line.extend(written(argument));
        }
        line.push(roman(">"));
    }
    values.into_iter().for_each(|argument| add_argument(&mut line, argument));
    if command.has_subcommands() {
        line.extend([roman(" <"), italic("subcommand"), roman(">")]);
    }
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]).text(line);
    roff
}

fn add_argument(line: &mut Vec<Inline>, argument: &Arg) {
    let (before, behind) = match (argument.is_required_set(), argument.is_last_set()) {
        (true, _) => (" ", ""),
        (false, true) => (" [-- ", "]"),
        (false, false) => (" [", "]"),
    };
    line.push(roman(before));
    line.extend(written(argument));
    line.push(roman(behind));
    let is_repeated = matches!(argument.get_action(), ArgAction::Append | ArgAction::Count);
    line.extend(is_repeated.then(|| roman("...")));
}

/// `-p|--pid PID`
fn written(argument: &Arg) -> Vec<Inline> {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let mut written = Vec::new();
    for flag in [short, long].into_iter().flatten() {
        written.extend((!written.is_empty()).then(|| roman("|")));
        written.push(bold(flag));
    }
    if argument.get_action().takes_values() {
        written.extend((!written.is_empty()).then(|| roman(" ")));
        let names = argument.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        written.push(italic(if names.is_empty() {
            argument.get_id().as_str().to_uppercase()
        } else {
            names.join(" ")
        }));
    }
    written
}

/// Paragraphs that begin with a heading and a colon, as sections; lines are not filled.
fn below_help(text: &str) -> Roff {
    let mut roff = Roff::default();
    for paragraph in text.split("\n\n") {
        let (heading, body) = paragraph.split_once(':').unwrap_or(("Notes", paragraph));
        roff.control("SH", [heading.to_uppercase().as_str()]);
        roff.control("nf", []);
        for line in body.trim_matches('\n').lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line).to_owned())]);
        }
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that are shown: a hidden one is a word that is refused with a reason.
    fn all(command: &Command, then: &mut dyn FnMut(&Command)) {
        then(command);
        command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| all(below, then));
    }

    #[test]
    fn every_subcommand_has_a_page_that_names_every_flag() {
        let pages = pages();
        let mut command = Args::command();
        command.build();
        let mut count = 0;
        all(&command, &mut |command| {
            let name = command.get_display_name().unwrap_or("weir");
            let page = pages.iter().find(|page| page.file == format!("{name}.1"));
            let page = page.unwrap_or_else(|| panic!("no page of {name}"));
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let long = argument.get_long().map(|long| format!("\\-\\-{}", long.replace('-', "\\-")));
                let short = argument.get_short().map(|short| format!("\\-{short}"));
                for flag in long.into_iter().chain(short) {
                    assert!(page.text.contains(&flag), "{name}: {flag}\n{}", page.text);
                }
            }
            count += 1;
        });
        assert_eq!(pages.len(), count);
        assert!(count > 10, "{count}");
    }

    #[test]
    fn every_synopsis_names_the_values() {
        let mut command = Args::command();
        command.build();
        let of = |names: &[&str]| {
            let below = names.iter().try_fold(&command, |command, name| command.find_subcommand(name));
            let text = synopsis(below.expect("it is there")).to_roff();
            ["\\fB", "\\fI", "\\fR", "\\"].iter().fold(text, |text, mark| text.replace(mark, ""))
        };
        let trace = of(&["trace"]);
        for part in [
            "weir trace [-e PROGRAM] [-c|--cmd COMMAND] [-p|--pid PID|NAME]...",
            "[-o|--output FILE]",
            "[-v|--verbose]",
            " [FILE.bt|PARAM]... [-- COMMAND]...\n",
        ] {
            assert!(trace.contains(part), "{part:?} is not in {trace}");
        }
        assert!(!trace.contains("no-sessions"), "{trace}");
        assert!(of(&[]).contains("<subcommand>"), "{}", of(&[]));
        assert!(of(&["completions"]).contains(" SHELL"), "{}", of(&["completions"]));
        all(&command, &mut |command| {
            let text = synopsis(command).to_roff();
            assert!(!text.contains("\\-\\fR]") && !text.contains(" \\fR]"), "{text}");
        });
    }

    #[test]
    fn examples_keep_their_lines() {
        let text = below_help("Examples:\n  a -b\n        what it does\n\nExit codes: 0 done").to_roff();
        assert!(text.contains(".SH EXAMPLES\n.nf\na \\-b\n      what it does\n.fi\n"), "{text}");
        assert!(text.contains(".SH \"EXIT CODES\"\n.nf\n 0 done\n.fi"), "{text}");
    }
}
