// Package page tests the page /status of the real manager in a real browser, headless Chromium.
// Its tests are behind the build tag e2e (make e2e-page).
package page
