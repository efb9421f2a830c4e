//! The text on a terminal after the output of a program.

/// The lines of a terminal with this many columns and unlimited height.
pub struct VirtualScreen {
    columns: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl VirtualScreen {
    /// The lines after this output, without trailing blanks.
    pub fn text(columns: usize, output: &str) -> String {
        let mut screen = VirtualScreen { columns, lines: vec![Vec::new()], row: 0, column: 0 };
        let mut letters = output.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => screen.control(&mut letters),
                '\r' => screen.column = 0,
                '\n' => screen.down(1),
                letter => screen.put(letter),
            }
        }
        let lines =
            screen.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned() + "\n");
        lines.collect::<String>().trim_end().to_owned() + "\n"
    }

    /// Applies a control sequence after the escape character: moves and deletions; ignores colors and modes.
    fn control(&mut self, letters: &mut impl Iterator<Item = char>) {
        assert_eq!(letters.next(), Some('['), "a control sequence");
        let mut number = String::new();
        let last = letters.find(|letter| {
            number.extend(letter.is_ascii_digit().then_some(*letter));
            letter.is_ascii_alphabetic()
        });
        let times = number.parse().unwrap_or(1);
        match last.expect("the end of a control sequence") {
            'A' => self.row -= times,
            'B' => self.down(times),
            'K' => self.lines[self.row].clear(),
            'J' => self.lines.truncate(self.row + 1),
            'h' | 'l' | 'm' => {}
            other => panic!("an unknown control sequence: {number}{other}"),
        }
    }

    fn down(&mut self, rows: usize) {
        self.row += rows;
        self.lines.resize(self.lines.len().max(self.row + 1), Vec::new());
    }

    fn put(&mut self, letter: char) {
        if self.column == self.columns {
            self.down(1);
            self.column = 0;
        }
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = letter;
        self.column += 1;
    }
}
