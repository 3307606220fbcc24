//! Text of a page, escaped where it comes from outside.

use std::fmt::{self, Display, Write};

/// A value inside an element or a quoted attribute.
pub(crate) struct Escaped<T>(pub(crate) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Out<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl Write for Out<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for letter in text.chars() {
                    match letter {
                        '<' => self.0.write_str("&lt;")?,
                        '>' => self.0.write_str("&gt;")?,
                        '&' => self.0.write_str("&amp;")?,
                        '"' => self.0.write_str("&quot;")?,
                        // XML, and so SVG in other programs, has no other control characters.
                        letter if letter < ' ' && !"\n\t".contains(letter) => self.0.write_char('\u{fffd}')?,
                        letter => self.0.write_char(letter)?,
                    }
                }
                Ok(())
            }
        }
        write!(Out(f), "{}", self.0)
    }
}

/// Nanoseconds as milliseconds with three digits, as `vicus trace summary` prints them.
pub(crate) struct Ms(pub(crate) u64);

impl Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = (self.0 + 500) / 1000;
        write!(f, "{}.{:03}", us / 1000, us % 1000)
    }
}

/// A table: a caption, names of columns, and rows of cells. The first columns are texts, all others numbers.
pub(crate) struct Table<'a> {
    pub(crate) id: String,
    pub(crate) caption: &'a str,
    pub(crate) columns: &'a [&'a str],
    pub(crate) texts: usize,
}

impl Table<'_> {
    /// Writes the table. Each row has its attributes, such as ` data-seat="3"`, and its cells.
    pub(crate) fn write(&self, out: &mut String, rows: &[(String, Vec<String>)]) {
        let Table { id, caption, columns, texts } = self;
        let class = |at: usize| if at < *texts { "" } else { " class=\"n\"" };
        _ = write!(
            out,
            "<div class=\"scroll\" tabindex=\"0\"><table id=\"{id}\"><caption>{caption}</caption><thead><tr>"
        );
        for (at, column) in columns.iter().enumerate() {
            _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(at), Escaped(column));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (attributes, cells) in rows {
            _ = write!(out, "<tr{attributes}>");
            for (at, cell) in cells.iter().enumerate() {
                _ = match at {
                    0 => write!(out, "<th scope=\"row\">{}</th>", Escaped(cell)),
                    at => write!(out, "<td{}>{}</td>", class(at), Escaped(cell)),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_leave_its_place() {
        let text = Escaped("</script><img src=\"x\" onerror='1'>&\u{1}").to_string();
        assert_eq!(text, "&lt;/script&gt;&lt;img src=&quot;x&quot; onerror='1'&gt;&amp;\u{fffd}");
    }
}
