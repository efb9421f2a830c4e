set edit:completion:arg-completer[kubectl-skyhook] = { |@words|
    var index = (count $words)
    set index = (- $index 1)

    put (env _CLAP_IFS="\n" _CLAP_COMPLETE_INDEX=(to-string $index) KUBECTL_SKYHOOK_COMPLETE="elvish" kubectl-skyhook -- $@words) | to-lines
}
