package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openDirs makes the directories, and refuses those in which others could replace what root runs.
func (p Plan) openDirs() error {
	var errs []error
	var dirs []fs.FileInfo
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("directory %s: %w", dir, reason(err)))
			continue
		}
		info, err := os.Stat(dir)
		if err == nil {
			dirs = append(dirs, info)
		}
		switch {
		case err != nil:
			errs = append(errs, err)
		case !p.isSafe(info):
			errs = append(errs, fmt.Errorf("directory %s belongs to the user %d, who could have the kubelet run anything; chown root: %s", dir, p.ownerOf(info), dir))
		case info.Mode().Perm()&0o022 != 0:
			errs = append(errs, fmt.Errorf("directory %s can be written to by others than its owner (mode %v), who could have the kubelet run anything; chmod go-w %s", dir, info.Mode().Perm(), dir))
		}
	}
	if len(dirs) == 2 && os.SameFile(dirs[0], dirs[1]) {
		errs = append(errs, fmt.Errorf("the programs and the configuration are to be in the same directory %s; the kubelet runs what is in the one, so keep them apart", p.BinDir))
	}
	return errors.Join(errs...)
}

// isSafe reports whether a file or directory belongs to root, or to who runs this.
func (p Plan) isSafe(info fs.FileInfo) bool {
	uid := p.ownerOf(info)
	return uid == 0 || uid == os.Geteuid()
}

func (p Plan) ownerOf(info fs.FileInfo) int {
	if p.owner != nil {
		return p.owner(info)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return os.Geteuid()
}

// lock keeps a second run out of both directories, also one that has but one of them in common with
// this, until unlock is called or the process ends.
func (p Plan) lock() (unlock func(), err error) {
	var locked []*os.File
	unlock = func() {
		for _, f := range locked {
			_ = f.Close() // it was only opened
		}
	}
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		f, err := os.Open(dir)
		if err == nil {
			locked = append(locked, f)
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			unlock()
			return nil, fmt.Errorf("another installation into %s is under way; wait for its end", dir)
		case err != nil:
			unlock()
			return nil, fmt.Errorf("lock directory %s: %w", dir, reason(err))
		}
	}
	return unlock, nil
}

// reason is an error without the path, which is said already.
func reason(err error) error {
	var detail *fs.PathError
	if errors.As(err, &detail) {
		return detail.Err
	}
	return err
}
