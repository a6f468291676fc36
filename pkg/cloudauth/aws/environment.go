package aws

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/config"
)

// checkEnvironment finds credentials in the environment of which a part is missing: the SDK would take
// them for none at all, and go on to the instance's role.
func checkEnvironment() error {
	set := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return os.Getenv(n) != "" })
	}
	key, secret := set("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"), set("AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY")
	endpoint := set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
	var errs []error
	half := func(wrong bool, there, missing string) {
		if wrong {
			errs = append(errs, fmt.Errorf("AWS credentials in the environment: %s is set, but not %s, which belongs to it; set both or none", there, missing))
		}
	}
	half(key && !secret, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	half(secret && !key, "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")
	half(!key && !secret && set("AWS_SESSION_TOKEN"), "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	half(set("AWS_ROLE_ARN") && !set("AWS_WEB_IDENTITY_TOKEN_FILE"), "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")
	half(set("AWS_WEB_IDENTITY_TOKEN_FILE") && !set("AWS_ROLE_ARN"), "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
	for _, token := range []string{"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"} {
		half(set(token) && !endpoint, token, "AWS_CONTAINER_CREDENTIALS_FULL_URI")
	}
	return errors.Join(errs...)
}

// sharedFile is a file that the credentials may come from.
type sharedFile struct {
	path     string
	variable string // that names one
	named    bool   // whether it does
}

// sharedFiles are the files that the credentials may come from.
func sharedFiles() ([]sharedFile, error) {
	e, err := config.NewEnvConfig()
	if err != nil {
		return nil, err
	}
	return []sharedFile{
		{cmp.Or(e.SharedCredentialsFile, config.DefaultSharedCredentialsFilename()), "AWS_SHARED_CREDENTIALS_FILE", e.SharedCredentialsFile != ""},
		{cmp.Or(e.SharedConfigFile, config.DefaultSharedConfigFilename()), "AWS_CONFIG_FILE", e.SharedConfigFile != ""},
	}, nil
}

// checkFiles finds files that cannot be read though they are named or there: the SDK passes over them, and goes on
// to the instance's role.
func checkFiles(files []sharedFile) error {
	var errs []error
	for _, f := range files {
		file, err := os.Open(f.path)
		switch {
		case err == nil:
			_ = file.Close() // nothing was written
		case f.named || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			errs = append(errs, fmt.Errorf("AWS credentials: %w; correct the path (%s) or who may read it", err, f.variable))
		}
	}
	return errors.Join(errs...)
}
