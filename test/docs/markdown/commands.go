package markdown

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Command is a command line of a program of ours.
type Command struct {
	Where string // file and line; of the block, where it stands in one
	Text  string
	Args  []string // after the program's name
	// Mention: the text only names the program or its command in a sentence, or has an ellipsis: arguments may be missing.
	Mention bool
}

// Commands are all command lines of a program in blocks of sh, after a prompt and in examples in blocks of text, and in code inside of
// sentences.
func Commands(t *testing.T, root, program string) (out []Command) {
	t.Helper()
	for _, p := range Pages(t, root) {
		for _, b := range p.Blocks {
			script := b.Text
			if b.Language == "text" {
				script = strings.Join(prompts.FindAllString(b.Text, -1), "\n")
			}
			if b.Language == "sh" || b.Language == "text" {
				out = append(out, commands(t, b.Where, script, program)...)
			}
		}
		for n, line := range p.Lines {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				some := commands(t, fmt.Sprintf("%s:%d", p.File, n+1), strings.ReplaceAll(m[1], `\|`, "|"), program)
				for i := range some {
					some[i].Mention = some[i].Mention || !strings.Contains(m[1], " -")
				}
				out = append(out, some...)
			}
		}
	}
	return out
}

var (
	inline = regexp.MustCompile("`([^`]+)`")
	// prompts are lines that somebody has typed, and the examples of a program's help, which are no synopsis.
	prompts = regexp.MustCompile(`(?m)^(\$|  isthmus) [^\[\n]+$`)
	// before is what may stand before a command's name.
	before = regexp.MustCompile(`^(sudo|exec|time|if|while|then|do|else|!|\$|[A-Z_]+=.*)$`)
	// redirection is where a command's arguments end here.
	redirection = regexp.MustCompile(`^[0-9]?[<>]`)
)

func commands(t *testing.T, where, script, program string) (out []Command) {
	t.Helper()
	for _, words := range split(script) {
		text := strings.Join(words, " ")
		for len(words) > 0 && before.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 1 && words[0] == "kubectl" && words[1] == program {
			words = words[1:]
		}
		if len(words) == 0 || path.Base(words[0]) != program {
			continue
		}
		c := Command{Where: where, Text: text}
		for _, word := range words[1:] {
			if redirection.MatchString(word) {
				break
			}
			if strings.Contains(word, "*") && !strings.ContainsAny(word, `'"`) {
				t.Errorf("%s: zsh refuses the * without quotes: %s", where, text)
			}
			c.Args = append(c.Args, strings.NewReplacer(`'`, "", `"`, "").Replace(word))
		}
		c.Mention = slices.Contains(c.Args, "…")
		c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return arg == "…" })
		out = append(out, c)
	}
	return out
}

// split makes words of a shell's script, command by command. Quotes stay, and what they hold is one word, but for a command in $( ).
func split(script string) (out [][]string) {
	word, words, quote := "", []string(nil), rune(0)
	end := func(command bool) {
		if word != "" {
			words, word = append(words, word), ""
		}
		if command && len(words) > 0 {
			out, words = append(out, words), nil
		}
	}
lines:
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		for i, r := range line {
			switch {
			case r != '\'' && quote != '\'' && strings.HasPrefix(line[i:], "$("):
				quote = 0
				end(true)
			case quote != 0:
				word += string(r)
				if r == quote {
					quote = 0
				}
			case r == '\'' || r == '"':
				quote, word = r, word+string(r)
			case r == '#' && word == "":
				end(true)
				continue lines
			case strings.ContainsRune("|;()\n", r), r == '&' && !strings.HasSuffix(word, ">"):
				end(true)
			case r == ' ' || r == '\t':
				end(false)
			default:
				word += string(r)
			}
		}
	}
	end(true)
	return out
}
