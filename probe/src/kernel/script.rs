//! The script that an interpreter runs: a jar or main class of Java, a module or a script file.
//! Only its base name is kept from the arguments. Pure.

use std::fmt;

/// Maximum length of a name in bytes.
const MAX_BYTES: usize = 64;

/// The base name of a script, jar or class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Script(String);

impl Script {
    /// The base name, cut to the limit; `None` if nothing can be shown.
    fn new(path: &str) -> Option<Self> {
        let name = without_copy(path.rsplit('/').next().unwrap_or_default(), path);
        // `/dev/fd/3` is a file descriptor from a launcher, not a name.
        let plain = !name.chars().any(char::is_control) && !path.starts_with("/dev/");
        let end = name.floor_char_boundary(MAX_BYTES);
        // A hidden file is a launcher's own, such as Nextflow's `.command.sh`.
        (plain && end > 0 && !name.starts_with('.')).then(|| Self(name[..end].to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The name of a script without what Snakemake puts before the name of its copy, such as
/// `tmp0f3k_x2a.plot.py`. Every run has another copy.
///
/// Source: `snakemake/script/__init__.py` of versions 7 to 9, which creates the copy with Python's
/// `NamedTemporaryFile` in `.snakemake/scripts`.
fn without_copy<'a>(name: &'a str, path: &str) -> &'a str {
    let original = |rest: &'a str| {
        let (random, original) = rest.split_once('.')?;
        let is_random = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        (random.len() == 8 && random.chars().all(is_random)).then_some(original)
    };
    let is_copy = path.contains(".snakemake/scripts/");
    let rest = name.strip_prefix("tmp").filter(|_| is_copy);
    rest.and_then(original).unwrap_or(name)
}

/// The format of an interpreter's command line.
struct Form {
    /// Options that take the next argument as their value.
    with_value: &'static [&'static str],
    /// Options whose next argument names the script.
    naming: &'static [&'static str],
    /// Options with the program text as an argument; then there is no name.
    inline: &'static [&'static str],
}

/// The format for a program, by its name in the kernel.
///
/// Source: the manuals java(1), python(1), perl(1), Rscript(1), bash(1), node(1), ruby(1).
fn form(program: &str) -> Option<Form> {
    let version = |c: char| c.is_ascii_digit() || c == '.';
    let (with_value, naming, inline): (&[_], &[_], &[_]) = match program.trim_end_matches(version) {
        "java" => (
            &[
                "-cp",
                "-classpath",
                "--class-path",
                "-p",
                "--module-path",
                "--upgrade-module-path",
                "--add-modules",
                "--add-exports",
                "--add-opens",
                "--add-reads",
                "--enable-native-access",
            ],
            &["-jar", "-m", "--module"],
            &[],
        ),
        "python" | "pypy" => (&["-W", "-X"], &["-m"], &["-c"]),
        "perl" => (&["-I"], &[], &["-e", "-E"]),
        "R" => (&["-g", "--gui", "--args"], &["-f"], &["-e"]),
        "Rscript" => (&[], &[], &["-e"]),
        "ruby" => (&["-I", "-r", "-C"], &[], &["-e"]),
        "node" | "nodejs" => (&["-r", "--require", "--import"], &[], &["-e", "-p"]),
        "bash" | "sh" | "dash" | "zsh" => (&["-o", "-O"], &[], &["-c"]),
        _ => return None,
    };
    Some(Form {
        with_value,
        naming,
        inline,
    })
}

/// Whether a program is an interpreter that runs a file from its arguments.
pub fn is_interpreter(program: &str) -> bool {
    form(program).is_some()
}

/// The script that an interpreter runs. `arguments` includes the interpreter's own name as the
/// first one.
pub fn parse<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Option<Script> {
    let form = form(program)?;
    let mut arguments = arguments.into_iter().skip(1);
    while let Some(argument) = arguments.next() {
        if let Some(file) = argument.strip_prefix("--file=") {
            return Script::new(file);
        }
        if !argument.starts_with('-') {
            return Script::new(argument);
        }
        if form.naming.contains(&argument) {
            return Script::new(arguments.next()?);
        }
        // Single letters can be combined: `bash -euc 'text'`.
        let ends_inline = |option: &&str| argument == *option || is_joined(argument, option);
        if argument == "-" || form.inline.iter().any(ends_inline) {
            return None;
        }
        if form.with_value.contains(&argument) {
            arguments.next();
        }
    }
    None
}

fn is_joined(argument: &str, option: &str) -> bool {
    let letters = argument.strip_prefix('-').unwrap_or_default();
    let plain = letters.len() > 1 && letters.bytes().all(|b| b.is_ascii_lowercase());
    plain && letters.len() <= 4 && letters.ends_with(option.trim_start_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_runs_what_its_arguments_name() {
        let check = |program: &str, line: &str, expect: Option<&str>| {
            let got = parse(program, line.split(' '));
            assert_eq!(got.as_ref().map(Script::as_str), expect, "{line}");
        };
        let copy = "python /w/.snakemake/scripts/tmp0f3k_x2a.plot.py";
        check("python", copy, Some("plot.py"));
        let named_like_a_copy = "python /w/scripts/tmp0f3k_x2a.plot.py";
        check("python", named_like_a_copy, Some("tmp0f3k_x2a.plot.py"));
        check(
            "java",
            "java -Xmx4g -jar /opt/picard.jar SortSam",
            Some("picard.jar"),
        );
        check(
            "java",
            "java -cp a.jar:b.jar -Dx=1 org.broad.Main -I x",
            Some("org.broad.Main"),
        );
        check("java", "java -m app/org.lab.Main", Some("org.lab.Main"));
        check("java", "java -version", None);
        check(
            "python3.12",
            "python3 -u /work/train.py --secret 1",
            Some("train.py"),
        );
        check("python", "python -W ignore -m multiqc .", Some("multiqc"));
        check("python3", "python3 -c import_os", None);
        check("python3", "python3", None);
        check("python3", "python3 - x.py", None);
        check("perl", "perl -w /usr/bin/vcf.pl in", Some("vcf.pl"));
        check("perl", "perl -ne print", None);
        check("Rscript", "Rscript --vanilla plot.R a", Some("plot.R"));
        check(
            "R",
            "/usr/lib/R/bin/exec/R --no-echo --no-restore --file=de/plot.R --args x",
            Some("plot.R"),
        );
        check("node", "node --max-old-space-size=9 app.js", Some("app.js"));
        check("bash", "bash -ue run.sh", Some("run.sh"));
        check("bash", "/bin/bash -euc cat", None);
        check("bash", "bash -ue .command.sh", None);
        check("bash", "bash /dev/fd/3", None);
        check("bwa", "bwa mem ref.fa", None);
    }

    #[test]
    fn a_name_has_no_folder_no_control_character_and_sixty_four_bytes_at_most() {
        let long = format!("/a/{}é", "x".repeat(63));
        let got = parse("python3", ["python3", &long]);
        assert_eq!(got.map(|script| script.0.len()), Some(63));
        assert_eq!(parse("python3", ["python3", "a\u{1b}[2J.py"]), None);
        assert_eq!(parse("python3", ["python3", "/a/"]), None);
    }
}
