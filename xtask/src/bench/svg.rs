//! Svg: a picture, shape by shape.

use std::fmt::Write as _;

/// Where a text stands at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// On a white ground.
#[derive(Debug)]
pub(super) struct Picture(String);

type Place = (f64, f64);

impl Picture {
    pub(super) fn new(width: f64, height: f64) -> Picture {
        Picture(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        ))
    }

    pub(super) fn text(&mut self, at: Place, anchor: Anchor, is_bold: bool, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if is_bold { "bold" } else { "normal" };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{text}</text>\n",
            at.0, at.1
        ));
    }

    pub(super) fn line(&mut self, from: Place, to: Place, colour: &str, is_dashed: bool) {
        let dashes = if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"{dashes}/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// From its upper left corner.
    pub(super) fn bar(&mut self, at: Place, width: f64, height: f64, colour: &str) {
        self.add(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n",
            at.0, at.1
        ));
    }

    pub(super) fn point(&mut self, at: Place, colour: &str, is_filled: bool) {
        let fill = if is_filled { colour } else { "white" };
        self.add(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"/>\n",
            at.0, at.1
        ));
    }

    pub(super) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // SANITY: a string takes all that is written.
        self.0.write_fmt(shape).expect("room");
    }
}
