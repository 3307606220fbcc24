//! The page: its head, its tables, its data and its viewer, in the order in which a browser needs them.

use crate::Run;
use crate::figures::RunFigures;
use crate::html::Escaped;
use crate::tables;
use std::fmt::Write as _;
use std::io::{self, Write};

const STYLE: &str = include_str!("../viewer/dist/view.css").trim_ascii_end();
const SCRIPT: &str = include_str!("../viewer/dist/view.js").trim_ascii_end();
/// Written by `viewer/build`: the script and the style may run because of their hashes, and nothing else may.
const POLICY: &str = include_str!("../viewer/dist/POLICY");

/// The hash of the script in every page, as a policy of content names it: a page within another one is bound by the
/// other's policy as well.
pub fn script_hash() -> &'static str {
    let (_, rest) = POLICY.split_once("script-src ").expect("the policy has a script");
    rest.split(';').next().expect("a text has a first part")
}

/// The names of runs side by side.
const LETTERS: [&str; 2] = ["A", "B"];

/// A page about one run, or about two on one scale of time.
#[derive(Debug)]
pub struct Page {
    runs: Vec<Run>,
}

impl Page {
    /// A page about these runs. Panics unless there are one or two.
    pub fn new(runs: Vec<Run>) -> Page {
        assert!((1..=2).contains(&runs.len()), "a page shows one run, or two side by side");
        Page { runs }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// The writer failed.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut made: Vec<RunFigures<'_>> =
            self.runs.iter().enumerate().map(|(number, run)| RunFigures::new(run, number)).collect();
        if let [one, other] = &mut made[..] {
            other.take_colours(one);
        }
        out.write_all(head(&self.runs).as_bytes())?;
        for made in &made {
            json(out, &format!("h{}", made.number), &serde_json::to_string(made.trace.header())?)?;
            json(out, &format!("r{}", made.number), &made.index().to_string())?;
            data(out, &format!("k{}", made.number), &made.of_keys())?;
            for (seat, levels) in made.levels.iter().enumerate() {
                data(out, &format!("p{}-{seat}-0", made.number), &levels[0])?;
            }
        }
        let mut body = String::from("<header><h1>");
        for (at, run) in self.runs.iter().enumerate() {
            let versus = if at > 0 { " <small>and</small> " } else { "" };
            _ = write!(body, "{versus}{}", Escaped(&run.name));
        }
        body.push_str("</h1>");
        for made in &made {
            if self.runs.len() > 1 {
                _ = write!(body, "<h2>{} <span>{}</span></h2>", LETTERS[made.number], Escaped(&made.run.name));
            }
            body.push_str("<ul class=\"badges\">");
            tables::head(made, &mut body);
        }
        body.push_str(
            "</header>\n<noscript><p class=\"note\">Scripts are off: the time line needs them. All figures are in the \
             tables below.</p></noscript>\n<div id=\"view\" hidden></div>\n<main>\n",
        );
        if let [one, other] = &made[..] {
            tables::differences(one, other, &mut body);
        }
        for made in &made {
            if self.runs.len() > 1 {
                _ = write!(
                    body,
                    "<h2 class=\"run\">{} <span>{}</span></h2>",
                    LETTERS[made.number],
                    Escaped(&made.run.name)
                );
            }
            _ = write!(body, "<div class=\"run-body\" data-run=\"{}\">", made.number);
            tables::body(made, &mut body);
            body.push_str("</div>\n");
        }
        body.push_str("</main>\n");
        out.write_all(body.as_bytes())?;
        // The viewer runs before its data is here, and draws the first picture from what is above.
        writeln!(out, "<script id=\"viewer\">{SCRIPT}</script>")?;
        for made in &made {
            for (seat, levels) in made.levels.iter().enumerate() {
                for (level, text) in levels.iter().enumerate().skip(1) {
                    data(out, &format!("p{}-{seat}-{level}", made.number), text)?;
                }
            }
            for (chunk, text) in made.chunks.iter().enumerate() {
                data(out, &format!("c{}-{chunk}", made.number), text)?;
            }
        }
        out.write_all(b"</body></html>\n")
    }
}

/// A text of JSON in a script can not end it without this letter.
fn json(out: &mut impl Write, id: &str, text: &str) -> io::Result<()> {
    writeln!(out, "<script type=\"application/json\" id=\"{id}\">{}</script>", text.replace('<', "\\u003c"))
}

/// Data stands in a script that no browser runs.
fn data(out: &mut impl Write, id: &str, base64: &str) -> io::Result<()> {
    writeln!(out, "<script type=\"application/octet-stream\" id=\"{id}\">{base64}</script>")
}

fn head(runs: &[Run]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<meta \
         name=\"generator\" content=\"Vicus {}\">\n<title>{}</title>\n<style>{STYLE}</style></head><body>\n",
        POLICY.trim(),
        env!("CARGO_PKG_VERSION"),
        Escaped(names.join(" and ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::fs;
    use std::path::Path;

    /// `viewer/build` makes the bundle, with Node.js, and the bundle lies in the repository. Its hash of the sources
    /// shows that it is theirs.
    #[test]
    fn the_bundle_is_of_these_sources() {
        let viewer = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer");
        let mut names: Vec<String> = ["build", "package.json", "package-lock.json"].map(str::to_owned).into();
        for entry in fs::read_dir(viewer.join("src")).unwrap() {
            names.push(format!("src/{}", entry.unwrap().file_name().into_string().unwrap()));
        }
        names.sort();
        let mut all = Vec::new();
        for name in &names {
            let bytes = fs::read(viewer.join(name)).unwrap();
            all.extend(format!("{name} {}\n", bytes.len()).into_bytes());
            all.extend(bytes);
        }
        let said = fs::read_to_string(viewer.join("dist/SOURCES")).unwrap();
        let found: String = Sha256::digest(&all).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(said.trim(), found, "build the viewer anew: doors/view/viewer/build");
    }

    /// A browser runs a script only if the policy has its hash.
    #[test]
    fn the_policy_allows_the_script_and_the_style_alone() {
        let hash = |text: &str| format!("'sha256-{}'", crate::pack::base64(&Sha256::digest(text)));
        let expected = format!(
            "default-src 'none'; script-src {}; style-src {}; worker-src blob:; base-uri 'none'; form-action 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        assert_eq!(POLICY.trim(), expected);
        assert!(SCRIPT.len() + STYLE.len() <= 80 * 1024, "the viewer is small");
    }
}
