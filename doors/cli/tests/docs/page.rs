//! A page's commands, outputs and files, in their order.

/// What is done for a page, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    File { name: String, text: String },
    Commands { line: usize, text: String, printed: Option<String>, not_run: bool },
}

/// A page, taken apart.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) path: String,
    /// Programs without which its commands can't run.
    pub(crate) needs: Vec<String>,
    pub(crate) steps: Vec<Step>,
    /// Blocks that this test can't read.
    pub(crate) faults: Vec<String>,
}

impl Page {
    pub(crate) fn read(path: &str, text: &str) -> Page {
        let mut page = Page { path: path.to_owned(), needs: Vec::new(), steps: Vec::new(), faults: Vec::new() };
        // The last line with text outside of blocks; empty right behind a block.
        let mut before = String::new();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(needs) = between(line, "<!-- needs: ", " -->") {
                page.needs.extend(needs.split_whitespace().map(str::to_owned));
            } else if let Some(kind) = line.strip_prefix("```") {
                let block: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
                let text = block.join("\n") + "\n";
                page.take(number + 1, kind, text, &before);
                before.clear();
            } else if !line.trim().is_empty() {
                line.clone_into(&mut before);
            }
        }
        page
    }

    /// A block of this kind at a line, behind another line of text.
    fn take(&mut self, line: usize, kind: &str, text: String, before: &str) {
        match (kind, self.steps.last_mut()) {
            ("sh", _) => {
                let reason = between(before, "<!-- not run: ", " -->");
                if reason.is_some_and(|reason| reason.trim().is_empty()) {
                    self.faults.push(format!("{}:{line}: a block that is not run has a reason", self.path));
                }
                self.steps.push(Step::Commands { line, text, printed: None, not_run: reason.is_some() });
            }
            ("bash" | "shell" | "console", _) => {
                self.faults.push(format!("{}:{line}: commands stand in a block of `sh`, not `{kind}`", self.path));
            }
            ("text", Some(Step::Commands { printed: printed @ None, .. })) if before.is_empty() => {
                *printed = Some(text)
            }
            _ => {
                if let Some(name) = named(before) {
                    self.steps.push(Step::File { name: name.to_owned(), text });
                }
            }
        }
    }

    pub(crate) fn not_run(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Commands { not_run: true, .. })).count()
    }

    /// Whether there is anything to run.
    pub(crate) fn has_commands(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Commands { not_run: false, .. }))
    }
}

fn between<'a>(line: &'a str, open: &str, close: &str) -> Option<&'a str> {
    line.trim().strip_prefix(open)?.strip_suffix(close)
}

/// The file that a line names at its end: `` … `program.c`: ``.
fn named(line: &str) -> Option<&str> {
    let (_, name) = line.trim_end().strip_suffix("`:")?.rsplit_once('`')?;
    (name.contains('.') && !name.contains([' ', '*'])).then_some(name)
}

/// Commands over several physical lines as one, without comments: line numbers in the block, and texts.
pub(crate) fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut whole = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split("  #").next().unwrap_or(line).trim_end();
        if let Some(part) = line.strip_suffix('\\') {
            whole.push_str(part);
        } else {
            whole.push_str(line);
            found.push((number, std::mem::take(&mut whole)));
        }
    }
    found
}

/// Whether a text is the printed one, in which `…` stands for any text of a line, and a line of `…` for any lines.
/// Widths of columns may differ. Else, the first line that nothing fits.
pub(crate) fn compare(printed: &str, found: &str) -> Result<(), String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = printed.lines().map(words).collect();
    let lines: Vec<String> = found.lines().map(words).collect();
    // The numbers of lines that the wanted ones up to here may have taken.
    let mut taken = vec![0];
    for line in &wanted {
        let after: Vec<usize> = if line == "…" {
            (taken.first().copied().unwrap_or(0)..=lines.len()).collect()
        } else {
            taken.iter().filter(|at| lines.get(**at).is_some_and(|found| fits(line, found))).map(|at| at + 1).collect()
        };
        if after.is_empty() {
            return Err(format!("no line fits `{line}`"));
        }
        taken = after;
    }
    if taken.contains(&lines.len()) { Ok(()) } else { Err("more is printed than the page shows".to_owned()) }
}

/// Whether a line is the wanted one, in which `…` stands for any text.
fn fits(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[test]
fn a_page_is_taken_apart() {
    let text = "<!-- needs: gcc libraries -->\nThe file `a.c`:\n\n```c\nint a;\n```\n\n```sh\ncc a.c\n```\n\n\
                ```text\ndone\n```\n\nNot output:\n\n```text\nx\n```\n\n<!-- not run: needs root -->\n\
                ```sh\nsudo x\n```\n";
    let page = Page::read("p.md", text);
    assert_eq!(page.needs, ["gcc", "libraries"]);
    let commands = |line, text: &str, printed: Option<&str>, not_run| Step::Commands {
        line,
        text: text.to_owned(),
        printed: printed.map(str::to_owned),
        not_run,
    };
    assert_eq!(
        page.steps,
        [
            Step::File { name: "a.c".to_owned(), text: "int a;\n".to_owned() },
            commands(8, "cc a.c\n", Some("done\n"), false),
            commands(23, "sudo x\n", None, true),
        ]
    );
    assert_eq!((page.not_run(), page.has_commands(), page.faults.len()), (1, true, 0));
    let page = Page::read("p.md", "```bash\nx\n```\n<!-- not run:  -->\n```sh\nx\n```\n");
    assert_eq!(page.faults.len(), 2, "{:?}", page.faults);
}

#[test]
fn outputs_are_compared() {
    assert_eq!(compare("a  1\nb …\n", "a 1\nb 2.5 ms\n"), Ok(()));
    assert_eq!(compare("…\nend\n", "1\n2\nend\n"), Ok(()));
    assert_eq!(compare("took … ms, … rows\n", "took 3 ms, 7 rows\n"), Ok(()));
    assert!(compare("took … ms, … rows\n", "took 3 ms, 7 lines\n").is_err());
    assert!(compare("a 1\n", "a 2\n").is_err());
    assert!(compare("a 1\n", "a 1\nb\n").is_err());
    assert!(compare("a 1\nb\n", "a 1\n").is_err());
    assert!(compare("…\nend\n", "1\nend\n2\n").is_err());
}

#[test]
fn commands_are_read_whole() {
    let found = logical_lines("a --b \\\n  c   # why\n# d\ne\n");
    assert_eq!(found, [(1, "a --b   c".to_owned()), (2, "# d".to_owned()), (3, "e".to_owned())]);
}
