// Command ship writes what ships beside a binary: the licenses of all that is linked into it and an
// SBOM; and the CA certificates for an image that has none.
//
//	ship -binary FILE -version V [-created SECONDS] [-licenses FILE] [-sbom FILE]
//	ship -roots FILE
//
// With both, the SBOM lists the certificates, too.
//
// It runs in the folder of the module that the binary is built from, and writes the same bytes for
// the same binary.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ship:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ship", flag.ContinueOnError)
	binary := flags.String("binary", "", "the binary, as Go has built it")
	version := flags.String("version", "", "its version")
	created := flags.Int64("created", 0, "when it was made, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	licenses := flags.String("licenses", "", "where to write the licenses")
	sbom := flags.String("sbom", "", "where to write the SBOM (SPDX 2.3, JSON)")
	roots := flags.String("roots", "", "where to write the CA certificates that Mozilla trusts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *roots != "" {
		if err := write(*roots, rootsPEM()); err != nil {
			return err
		}
	}
	if *binary == "" {
		if *roots == "" {
			return errors.New("give -binary or -roots")
		}
		return nil
	}
	b, err := readBinary(ctx, *binary, *version)
	if err != nil {
		return err
	}
	if err := b.classify(); err != nil {
		return err
	}
	if *roots != "" {
		b.modules = append(b.modules, rootsModule())
	}
	document, err := b.sbom(time.Unix(*created, 0).UTC())
	if err != nil {
		return err
	}
	return errors.Join(write(*licenses, b.licenses()), write(*sbom, document))
}

// write makes file readable for all, whatever the umask; "" is for what is not wanted.
func write(file string, data []byte) error {
	if file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	return os.Chmod(file, 0o644)
}
