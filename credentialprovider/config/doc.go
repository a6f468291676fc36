// Package config is what the credential provider is to serve: the file of --config, or the flags in its
// place, and the kinds of registries that they name. All kinds stand here, by cloud; a build may leave a
// cloud out. It reads no flags and asks no cloud.
package config
