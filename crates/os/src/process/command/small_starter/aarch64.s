    ldr x19, [sp]
    ldr x1, [sp, #16]
    mov w20, wzr
    mov w3, #10
2:
    ldrb w2, [x1], #1
    cbz w2, 3f
    sub w2, w2, #48
    madd w20, w20, w3, w2
    b 2b
3:
    mov x8, #{getppid}
    svc #0
    mov w21, w0
    mov x25, sp
    sub sp, sp, #16
    str xzr, [sp]
    bl 7f
    bl 8f
    cmp x0, #8
    b.ne 9f
    mov x8, #{clone}
    mov x0, #0xc111
    mov x1, xzr
    mov x2, xzr
    mov x3, xzr
    mov x4, xzr
    svc #0
    cbnz x0, 5f
    mov x8, #{setpgid}
    mov x0, xzr
    mov x1, xzr
    svc #0
    mov x8, #{prctl}
    mov x0, #1
    mov x1, #9
    svc #0
    mov x8, #{getppid}
    svc #0
    cmp w0, w21
    b.ne 9f
    mov x8, #{fcntl}
    mov x0, x20
    mov x1, #2
    mov x2, #1
    svc #0
    mov x8, #{execve}
    ldr x0, [x25, #24]
    add x1, x25, #32
    add x2, x25, x19, lsl #3
    add x2, x2, #16
    svc #0
    str x0, [sp]
    bl 7f
    b 9f
5:
    str x0, [sp]
    mov x22, x0
    bl 7f
    tbnz x22, #63, 9f
6:
    bl 8f
    cmn x0, #4    // EINTR
    b.eq 6b
    cmp x0, #8
    b.eq 9f
    neg x0, x22
    mov x1, #9
    mov x8, #{kill}
    svc #0
    b 9f
    // Sends the message.
7:
    mov x8, #{write}
    b 4f
    // Receives an answer.
8:
    mov x8, #{read}
4:
    mov x0, x20
    mov x1, sp
    mov x2, #8
    svc #0
    ret
9:
    mov x8, #{exit_group}
    mov x0, xzr
    svc #0
