//! Quotes words of a shell command that a user may copy. Names come from tags and job definitions,
//! which other people control. No name may end its quotes or be parsed as an option.

/// Quotes a name as one shell word.
pub fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Quotes a name as an operand, after `--` if it starts with a hyphen.
pub fn operand(name: &str) -> String {
    match name.starts_with('-') {
        true => format!("-- {}", quoted(name)),
        false => quoted(name),
    }
}

/// An option with its value. If the value starts with `-`, an `=` separates option and value.
pub fn option(option: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{option}{between}{}", quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_its_quotes_or_is_read_as_an_option() {
        let check = |name: &str, as_operand: &str, as_option: &str| {
            assert_eq!(operand(name), as_operand);
            assert_eq!(option("--name", name), as_option);
        };
        check("align", "'align'", "--name 'align'");
        check("-f", "-- '-f'", "--name='-f'");
        check(
            "a'; rm x; '",
            r"'a'\''; rm x; '\'''",
            r"--name 'a'\''; rm x; '\'''",
        );
        check("$(x) `y`", "'$(x) `y`'", "--name '$(x) `y`'");
        check("", "''", "--name ''");
    }

    /// A real shell parses each quoted word as the original name.
    #[test]
    fn a_shell_reads_the_same_word_back() {
        for name in [
            "align",
            "-n",
            "a'b",
            "'; echo x; '",
            "$(x)",
            "`y`",
            "a b\tc",
            "\\",
            "!1",
        ] {
            let script = format!("printf '%s' {}", quoted(name));
            let ran = std::process::Command::new("sh")
                .arg("-c")
                .arg(script)
                .output();
            let ran = ran.expect("a shell");
            assert_eq!(String::from_utf8_lossy(&ran.stdout), name);
        }
    }
}
