package install

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxLinks is how many links a path may lead through; Linux takes no more either.
const maxLinks = 40

// Flaw is a file, a directory or a link through which others than root, or than who runs this, could
// change what is at a path.
type Flaw struct {
	Path string
	// Cause says what is wrong with it, Next what to do.
	Cause, Next string
}

// Flaws returns what lets others change what is at a path: it looks at all that leads there from the root of
// the file system, links and where they point to as well. Of a path that is not there it looks at what is.
// A directory on the way to which all can write may have the sticky bit (/tmp), with which nobody replaces
// what belongs to another. There are none on Windows, whose owners and modes are not looked at.
func Flaws(path string) []Flaw { return flaws(path, fileOwner) }

func flaws(path string, owner func(fs.FileInfo) int) []Flaw {
	if runtime.GOOS == "windows" {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil // there is no working directory: nothing is at the path
	}
	const root = string(filepath.Separator)
	var found []Flaw
	at, rest, links := root, split(path), 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return found
		}
		found = append(found, flawsOf(at, info, len(rest) == 0, owner)...)
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			if links++; err != nil || links > maxLinks {
				return found
			}
			rest = append(split(target), rest...)
			if at = filepath.Dir(at); filepath.IsAbs(target) {
				at = root
			}
		}
		if len(rest) == 0 {
			return found
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// flawsOf looks at one file, directory or link; last is that nothing is looked for in it.
func flawsOf(path string, info fs.FileInfo, last bool, owner func(fs.FileInfo) int) []Flaw {
	what := "it"
	if info.IsDir() {
		what = "directory " + path
	}
	var found []Flaw
	if uid := owner(info); !isSafe(uid) {
		found = append(found, Flaw{path, fmt.Sprintf("%s belongs to the user %d, who can change what root's kubelet runs or reads", what, uid), "chown -h root " + path})
	}
	sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0 && !last
	if (info.IsDir() || info.Mode().IsRegular()) && info.Mode().Perm()&0o022 != 0 && !sticky {
		found = append(found, Flaw{path, fmt.Sprintf("%s can be written to by others than its owner (mode %v), who can change what root's kubelet runs or reads", what, info.Mode().Perm()), "chmod go-w " + path})
	}
	return found
}

// isSafe reports whether a user is root, or who runs this.
func isSafe(uid int) bool { return uid == 0 || uid == os.Geteuid() }
